"""Feature maps that kernels know, described by their type, and the parts that other feature maps are made of."""

# B images  N tokens  H heads  K head width  M features

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from typing_extensions import Self

from vixformer.ops.choice import room, unwatched
from vixformer.ops.native import LANES
from vixformer.ops.precision import widest

FOCUSED_EPS = 1e-6
LEAST_SHARE = 1e-12
"""As in Hedgehog's own code: for large u, queries and keys otherwise have no feature in common."""


class FeatureMap(Protocol):
    """phi(x) (B, H, N, M) of queries or keys x (B, H, N, K), float32."""

    def __call__(self, x: Tensor, keys: bool) -> Tensor: ...

    def tensors(self) -> tuple[Tensor, ...]:
        """What it is made of."""
        ...

    def made_of(self, *tensors: Tensor) -> FeatureMap:
        """The same, of other tensors."""
        ...

    def check(self, width: int) -> None:
        """Raise a `ValueError` where it is not made for heads of this width."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Projected:
    """u = scale `directions` x, with directions (M, K); u = scale x where there are none."""

    directions: Tensor | None = None
    scale: float = 1.0
    eps: float = 0.0

    def tensors(self) -> tuple[Tensor, ...]:
        return () if self.directions is None else (self.directions,)

    def made_of(self, *tensors: Tensor) -> Self:
        return replace(self, directions=tensors[0]) if tensors else self

    def check(self, width: int) -> None:
        if self.directions is not None and (self.directions.dim() != 2 or self.directions.shape[1] != width):
            raise ValueError(
                f"directions for heads of {width} channels are (features, {width}), not {tuple(self.directions.shape)}"
            )

    def rows(self) -> Tensor | None:
        """The directions of all features, of which u is made in one product."""
        return self.directions

    def projected(self, x: Tensor) -> Tensor:
        return x * self.scale if self.directions is None else x @ (self.directions.to(x.dtype).t() * self.scale)


class ReluMap(Projected):
    """max(u, 0) + eps."""

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        u = self.projected(x)
        return torch.clamp(u, min=0.0, out=room(u)).add_(self.eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixMap(ReluMap):
    """max(`weight` u, 0) + eps."""

    weight: Tensor

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        u = self.projected(x) @ self.weight.to(x.dtype).t()
        return torch.clamp(u, min=0.0, out=room(u)).add_(self.eps)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.weight, *super().tensors()

    def made_of(self, *tensors: Tensor) -> Self:
        return replace(self, weight=tensors[0], directions=tensors[1] if len(tensors) > 1 else None)

    def rows(self) -> Tensor:
        return self.weight if self.directions is None else self.weight @ self.directions


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpMap(Projected):
    """exp(u - weight |x|^2 - c) + eps, where c cancels or eps is measured by it: see `stable_exp`."""

    weight: float = 0.0

    def __call__(self, x: Tensor, keys: bool, mask: Tensor | None = None) -> Tensor:
        """`mask` (B, N) says which keys c is the largest of."""
        square = x.square().sum(-1, keepdim=True) * self.weight if self.weight else None
        return stable_exp(self.projected(x), square, self.eps, keys, mask, False)


class CoshMap(ExpMap):
    """The same of u and of -u."""

    def __call__(self, x: Tensor, keys: bool, mask: Tensor | None = None) -> Tensor:
        square = x.square().sum(-1, keepdim=True) * self.weight if self.weight else None
        u = self.projected(x)
        return stable_exp(torch.cat([u, -u], -1), square, self.eps, keys, mask, False)

    def rows(self) -> Tensor | None:
        return None if self.directions is None else torch.cat([self.directions, -self.directions])


@dataclass(frozen=True, kw_only=True, eq=False)
class EluMap(Projected):
    """u, or alpha (exp(u) - 1) where u is negative, + alpha + eps."""

    alpha: float = 1.0

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        return F.elu(self.projected(x), self.alpha) + (self.alpha + self.eps)


class GeluMap(Projected):
    """GELU(u) + eps."""

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        return F.gelu(self.projected(x)) + self.eps


class SharesMap(Projected):
    """softmax(u), at least 1e-12."""

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        return softmax_features(self.projected(x))


@dataclass(frozen=True, kw_only=True, eq=False)
class TaylorMap:
    """1, u = scale x and the products of each two parts of u, squares over the root of 2: products of features are 1 +
    s + s^2/2 of those of u."""

    scale: float = 1.0

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        # tokens last, which are many, so that products of single parts are long rows
        u = (x * self.scale).transpose(-1, -2).contiguous()
        # a product of two parts comes twice in the square of a sum, so at one half it has the weight 1
        products = [u[..., i : i + 1, :] * u[..., i + 1 :, :] for i in range(u.shape[-2] - 1)]
        return torch.cat([torch.ones_like(u[..., :1, :]), u, u.square() * 0.5**0.5, *products], -2).transpose(-1, -2)

    def tensors(self) -> tuple[Tensor, ...]:
        return ()

    def made_of(self, *tensors: Tensor) -> Self:
        return self

    def check(self, width: int) -> None:
        pass

    @staticmethod
    def features(width: int) -> int:
        return 1 + width + width * (width + 1) // 2


class _Whole:
    """A map that makes its features of all channels, without directions."""

    def tensors(self) -> tuple[Tensor, ...]:
        return ()

    def made_of(self, *tensors: Tensor) -> FeatureMap:
        return replace(self, **dict(zip(self.__dataclass_fields__, tensors, strict=False))) if tensors else self  # pyright: ignore

    def check(self, width: int) -> None:
        pass


@dataclass(frozen=True, eq=False)
class CosineMap(_Whole):
    """r times the cosine and the sine of pi i / 2N for the token at place i of N, with r = max(x, 0) + eps."""

    eps: float = 1e-6

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        angle = quarter_turn(x.shape[-2], x)
        r = F.relu(x) + self.eps  # a token whose q is negative throughout still has a normalizer
        return torch.cat([r * angle.cos(), r * angle.sin()], -1)


def quarter_turn(n: int, like: Tensor) -> Tensor:
    """(N, 1): angles from 0 to almost a right one."""
    return torch.arange(n, device=like.device, dtype=like.dtype)[:, None] * (torch.pi / (2 * n))


@dataclass(frozen=True, eq=False)
class HedgehogMap(_Whole):
    """softmax [W x, -W x], at least 1e-12, with W (H, K, K) of queries and of keys."""

    query: Tensor
    key: Tensor

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        u = x @ (self.key if keys else self.query).to(x.dtype).transpose(-1, -2)
        return softmax_features(torch.cat([u, -u], -1))

    def tensors(self) -> tuple[Tensor, ...]:
        return self.query, self.key


@dataclass(frozen=True, eq=False)
class FocusedMap(_Whole):
    """y to a power, at the length of y = (max(x, 0) + 1e-6) times `factor` (H, K)."""

    factor: Tensor
    power: float

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        y = (F.relu(x) + FOCUSED_EPS) * self.factor.to(x.dtype)[:, None]
        length = y.norm(dim=-1, keepdim=True)
        y = (y / y.amax(-1, keepdim=True).detach()) ** self.power  # in range whatever the power
        return y * (length / y.norm(dim=-1, keepdim=True))

    def tensors(self) -> tuple[Tensor, ...]:
        return (self.factor,)


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkMap:
    """y + eps with y = second max(first x + bias, 0) + shift, made positive by softplus where it is `smooth` and else
    by ReLU."""

    first: Tensor
    bias: Tensor
    second: Tensor
    shift: Tensor
    smooth: bool
    eps: float = 0.0

    def __call__(self, x: Tensor, keys: bool) -> Tensor:
        first, bias, second, shift = (t.to(x.dtype) for t in self.tensors())
        y = F.linear(F.relu(F.linear(x, first, bias)), second, shift)
        return (F.softplus(y) if self.smooth else F.relu(y)) + self.eps

    def tensors(self) -> tuple[Tensor, ...]:
        return self.first, self.bias, self.second, self.shift

    def check(self, width: int) -> None:
        shapes = [tuple(t.shape) for t in self.tensors()]
        hidden, features = len(self.bias), len(self.shift)
        if shapes != [(hidden, width), (hidden,), (features, hidden), (features,)]:
            raise ValueError(
                f"a network for heads of {width} channels is (hidden, {width}), (hidden,), (features, hidden) and"
                f" (features,), not {shapes}"
            )

    def made_of(self, *tensors: Tensor) -> FeatureMap:
        first, bias, second, shift = tensors
        return replace(self, first=first, bias=bias, second=second, shift=shift)


@dataclass(frozen=True)
class Laid:
    """Directions as kernels read them."""

    across: Tensor
    """(K, M), times the scale, with M filled up to a multiple of LANES."""
    along: Tensor
    """The transpose of that, for gradients."""
    keep: Tensor
    """(M), zero for those that only fill up."""
    source: Tensor | None = field(default=None, repr=False)
    scale: float = 1.0


_laid = WeakIdKeyDictionary()


def laid_out(directions: Tensor, scale: float) -> Laid:
    """Once for as long as they stay what they are. Their values are compared and not their version, which `.data` goes
    around."""
    if not unwatched() or directions.requires_grad:
        return _lay(directions, scale)
    known = _laid.get(directions)
    if known is None or known.scale != scale or not torch.equal(known.source, directions):
        # training may follow, and cannot keep what inference mode made
        with torch.inference_mode(False), torch.no_grad():
            known = _laid[directions] = replace(_lay(directions, scale), source=directions.clone(), scale=scale)
    return known


def _lay(directions: Tensor, scale: float) -> Laid:
    along = F.pad(directions * scale, (0, 0, 0, -len(directions) % LANES)).contiguous()
    keep = F.pad(along.new_ones(len(directions)), (0, -len(directions) % LANES))
    return Laid(along.t().contiguous(), along, keep)


def stable_exp(u: Tensor, square: Tensor | None, eps: float, keys: bool, mask: Tensor | None, causal: bool) -> Tensor:
    """exp(u - square - c) + eps. c cancels in the division: the largest u of a query itself, of all keys of an image
    and head.

    Without eps, c is the largest exponent instead of the largest u, so that the features of an image never all vanish.
    Under a causal mask c knows of the future, and eps, measured against it, would tell; so there is no eps, and float64
    holds keys far smaller than the last.
    """
    if causal:
        u, eps = widest(u), 0.0
    if square is not None and eps == 0:
        # one after the other: exponents above zero would come of rounding the sum of square and c; that of a query
        # cancels
        u, square = torch.sub(u, square, out=room(u)) if keys else u, None
    if keys and mask is not None:
        u = u.masked_fill(~mask[:, None, :, None], torch.finfo(u.dtype).min)
    top = u.detach().amax((-1, -2) if keys else -1, keepdim=True)
    u = torch.sub(u, top if square is None else square + top, out=room(u))
    u = torch.exp(u, out=room(u))
    return u if eps == 0 else torch.add(u, eps, out=room(u))


def softmax_features(u: Tensor) -> Tensor:
    """softmax(u), none of them zero."""
    return u.softmax(-1).clamp(min=LEAST_SHARE)


def orthogonal_rows(rows: int, columns: int, scaling: str, generator: torch.Generator | None = None) -> Tensor:
    """(rows, columns): blocks of Haar-distributed orthogonal matrices, row norms those of Gaussian rows (chi) or all
    sqrt(columns); `iid` is independent Gaussian rows."""
    if scaling == "iid":
        return torch.randn(rows, columns, generator=generator)
    blocks = []
    for _ in range(-(-rows // columns)):
        q, r = torch.linalg.qr(torch.randn(columns, columns, generator=generator))
        blocks.append(q * r.diagonal().sign())  # without the signs QR favors some rotations over others
    directions = torch.cat(blocks)[:rows]
    if scaling == "sqrt":
        return directions * columns**0.5
    return directions * torch.randn(rows, columns, generator=generator).norm(dim=1, keepdim=True)
