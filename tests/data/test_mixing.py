"""Mixed images have labels that say how."""

from __future__ import annotations

import numpy as np
import torch

from vixformer.data.mixing import mix, pasted


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ramp(count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Images that are their label everywhere, so that a pixel tells where it is from."""
    labels = torch.arange(count)
    return labels.float().view(-1, 1, 1, 1).expand(count, 3, 16, 16).contiguous(), labels


def test_mixup_mixes_images_and_labels_alike() -> None:
    images, labels = ramp()
    shares = []
    for seed in range(200):
        mixed, soft = mix(images, labels, 8, 0.8, 0.0, generator(seed))
        assert torch.allclose(soft.sum(1), torch.ones(8))
        assert torch.allclose(mixed[:, 0, 0, 0], soft @ labels.float(), atol=1e-5)
        assert torch.equal(mixed, mixed[:, :1, :1, :1].expand_as(mixed))
        shares += soft.max(1).values.tolist()
    assert 0.5 < np.mean(shares) < 0.95
    assert torch.equal(images, ramp()[0])


def test_cutmix_pastes_a_box_and_counts_its_pixels() -> None:
    images, labels = ramp()
    areas = []
    for seed in range(200):
        mixed, soft = mix(images, labels, 8, 0.0, 1.0, generator(seed))
        for image, own, share in zip(mixed[:, 0], labels, soft, strict=True):
            values, counts = image.unique(return_counts=True)
            found = torch.zeros(8).index_add_(0, values.long(), counts / 256)
            assert torch.allclose(found, share, atol=1e-5)
            other = image != own
            if other.any():
                rows, columns = other.any(1).sum(), other.any(0).sum()
                assert int(rows * columns) == int(other.sum())  # a box
                areas.append(float(other.float().mean()))
    assert min(areas) < 0.02
    assert max(areas) > 0.8


def test_of_both_each_batch_takes_one() -> None:
    images, labels = ramp()
    kinds = {bool((mix(images, labels, 8, 0.8, 1.0, generator(seed))[0] % 1 != 0).any()) for seed in range(40)}
    assert kinds == {True, False}
    one, two = (mix(images, labels, 8, 0.8, 1.0, generator(3)) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])


def test_a_whole_partner_leaves_nothing() -> None:
    images, _ = ramp(2)
    draw = np.random.default_rng(0)
    out, left = pasted(images, torch.tensor([1, 0]), 1.0, draw)
    assert left == 1.0
    assert torch.equal(out, images)
