"""Stripes across or along small gray images, with noise: a data set that needs no files."""

import torch

from vixformer.data.dataset import DataSet, Images


class Stripes(DataSet, name="stripes"):
    about = "stripes in gray, 8 x 8, 2 classes"
    shape = (1, 8, 8)
    counts = {"train": 400, "test": 100}

    def here(self):
        return True

    def read(self, part):
        generator = torch.Generator().manual_seed(int(part == "test"))
        count = self.counts[part]
        labels = torch.arange(count) % 2
        across = (torch.arange(8) % 2 * 255).expand(8, 8)
        pixels = torch.where(labels.view(-1, 1, 1) == 0, across, across.T).float()
        pixels = (0.5 * pixels + 128 * torch.rand(count, 8, 8, generator=generator)).clamp(0, 255)
        return Images.all(pixels.to(torch.uint8).unsqueeze(1), labels, ("across", "along"))
