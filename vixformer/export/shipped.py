"""A model with its preprocessing inside: pixels as they are stored go in, logits come out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from vixformer import ops
from vixformer.data.augment import resize
from vixformer.results.predictor import Predictor


class Shipped(nn.Module):
    """Pixels (B, channels, height, width) of 0 to 255, uint8, of the data set's size -> logits (B, classes),
    float32."""

    scale: Tensor
    shift: Tensor

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        prepare = predictor.preprocessing
        self.model, self.size = predictor.model.eval(), prepare.size
        std = torch.tensor(prepare.std).view(-1, 1, 1)
        self.register_buffer("scale", 1 / (255 * std), persistent=False)
        self.register_buffer("shift", -torch.tensor(prepare.mean).view(-1, 1, 1) / std, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.model(resize(torch.addcmul(self.shift, pixels.float(), self.scale), self.size)).float()


def program(shipped: Shipped, example: Tensor, dynamic_batch: bool) -> torch.export.ExportedProgram:
    """What torch.export makes of it, of operations of torch alone, for any batch or for that of the example."""
    shapes = ({0: torch.export.Dim("batch", max=2**15)},) if dynamic_batch else None
    if dynamic_batch and len(example) < 2:
        example = example.expand(2, -1, -1, -1).contiguous()  # a batch of one would be taken for a constant
    with ops.portable(), torch.no_grad():
        return torch.export.export(shipped, (example,), dynamic_shapes=shapes)
