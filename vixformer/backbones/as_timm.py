"""The methods of timm's models, by which its scripts and feature extractors take ours."""

# B images  D width

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vixformer.jsonfile import Values
from vixformer.ops import Grid

LAST = (99999,)
"""timm's number for what comes after all blocks."""


class AsTimm(nn.Module):
    head: nn.Module
    norm: nn.Module
    img_size: tuple[int, int]
    in_chans: int
    num_classes: int

    def run(self, x: Tensor) -> Iterator[tuple[Tensor, Grid]]:
        """Tokens (B, P + N, D) after each block, and the grid that the last N lie on."""
        raise NotImplementedError

    def get_classifier(self) -> nn.Module:
        return self.head

    def group_matcher(self, coarse: bool = False) -> Values:
        """Patterns of the names of its weights, in the order of depth: for learning rates by layer."""
        depth = r"^stages\.(\d+)" if coarse else r"^stages\.(\d+)\.(\d+)"
        return dict(
            stem=r"^(?:cls_token|pos|patch_embed|embed|convs)\b",
            blocks=[(r"^blocks\.(\d+)", None), (depth, None), (r"^(?:norm|pool)\b", LAST)],
        )

    @property
    def default_cfg(self) -> Values:
        """timm's pretrained configuration. The model does not know how its images are normalized, so mean and standard
        deviation are 0.5."""
        return dict(
            url="", num_classes=self.num_classes, input_size=(self.in_chans, *self.img_size), pool_size=None,
            crop_pct=1.0, interpolation="bicubic", mean=(0.5,) * self.in_chans, std=(0.5,) * self.in_chans,
            classifier="head",
        )  # fmt: skip

    @property
    def pretrained_cfg(self) -> Values:
        return self.default_cfg

    @property
    def feature_info(self) -> list[Values]:
        """For each block: its channels, and the width of one place of its grid in pixels (reduction)."""
        like, training = next(self.parameters()), self.training
        with torch.no_grad():
            image = torch.zeros(1, self.in_chans, *self.img_size, device=like.device, dtype=like.dtype)
            seen = [(tokens.shape[-1], grid) for tokens, grid in self.eval().run(image)]
        self.train(training)
        return [
            dict(num_chs=width, reduction=self.img_size[0] // grid[0], module=f"block.{i}")
            for i, (width, grid) in enumerate(seen)
        ]

    def forward_intermediates(
        self,
        x: Tensor,
        indices: int | Sequence[int] | None = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> Any:
        """The image after the blocks of these `indices` (a number: the last so many; left out: all), and the final
        features in front of them unless `intermediates_only`."""
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"output_fmt must be NCHW or NLC, not {output_fmt}")
        seen = list(self.run(x))
        count = len(seen)
        wanted = range(count) if indices is None else indices
        wanted = range(count - wanted, count) if isinstance(wanted, int) else wanted
        if any(not -count <= i < count for i in wanted):
            raise ValueError(f"indices must be blocks of the {count} that there are, not {indices}")
        found: list[Any] = []
        for i in sorted({i % count for i in wanted}):
            tokens, grid = seen[i]
            tokens = self.norm(tokens) if norm else tokens
            front = tokens.shape[1] - grid[0] * grid[1]
            image = tokens[:, front:]
            if output_fmt == "NCHW":
                image = image.transpose(1, 2).unflatten(-1, grid)
            found.append((image, tokens[:, :front]) if return_prefix_tokens else image)
        return found if intermediates_only else (self.norm(seen[-1][0]), found)
