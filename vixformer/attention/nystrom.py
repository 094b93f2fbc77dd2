"""Nystromformer: softmax attention through landmarks (arXiv:2102.03902)."""
# B images  N tokens  H heads  K head width  L landmarks

from __future__ import annotations

from dataclasses import dataclass

from pydantic import PositiveInt
from torch import Tensor, nn

from vixformer import ops
from vixformer.attention.base import Core, Shape
from vixformer.ops import Grid


class Nystrom(Core, name="nystrom"):
    """softmax(q k~') pinv(softmax(q~ k~')) softmax(q~ k') v, plus a depthwise convolution of v along the tokens.

    Landmarks q~ and k~ are means of L uneven segments, so nothing is padded. With no more tokens than landmarks
    attention is exact.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Core.Config):
        landmarks: PositiveInt = 64
        iterations: PositiveInt = 6
        conv: int | None = 33

        def __post_init__(self) -> None:
            if self.conv is not None and (self.conv < 1 or self.conv % 2 == 0):
                raise ValueError(f"conv is the length of a window and must be an odd number or none, not {self.conv}")

    config: Config

    def __init__(self, config: Config, shape: Shape) -> None:
        super().__init__(config, shape)
        heads, length = shape.num_heads, config.conv
        self.conv = (
            None
            if length is None
            else nn.Conv2d(heads, heads, (length, 1), padding=(length // 2, 0), groups=heads, bias=False)
        )

    def imitate(self) -> None:
        if self.conv is not None:
            nn.init.zeros_(self.conv.weight)

    @property
    def square(self) -> bool:
        return True

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        return ops.nystrom_attention(q, k, v, *self._options(), mask)

    def reference(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, grid: Grid | None = None
    ) -> Tensor:
        return ops.nystrom_attention_slow(q, k, v, *self._options(), mask)

    def attention_map(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
        """Without the convolution, which does not depend on q and k. Entries may be negative."""
        return ops.nystrom_weights(q, k, self.config.landmarks, self.config.iterations, mask)

    def _options(self) -> tuple[int, int, Tensor | None]:
        return self.config.landmarks, self.config.iterations, None if self.conv is None else self.conv.weight.flatten(1)

    def macs(self, n: int) -> int:
        heads, k, marks = self.shape.num_heads, self.shape.head_dim, self.config.landmarks
        local = 0 if self.conv is None else n * k * self.conv.weight.numel()
        if n <= marks:
            return local + 2 * n * n * heads * k
        inverse = 4 * self.config.iterations * marks**3
        return local + heads * (4 * n * marks * k + 2 * marks * marks * k + inverse)
