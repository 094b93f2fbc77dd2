"""Augmentations, and what they leave as it was."""

from __future__ import annotations

import torch

from vixformer.data.augment import crop_and_flip, cut_out, normalize, resize, rotate
from vixformer.data.dataset import Images
from vixformer.data.loader import Augmentation, Loader


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pixels(n: int = 64, c: int = 3, side: int = 12) -> torch.Tensor:
    return torch.randint(1, 256, (n, c, side, side), dtype=torch.uint8, generator=generator(5))


def test_crop_and_flip_only_move_pixels() -> None:
    x = pixels()
    out = crop_and_flip(x, 3, True, generator())
    assert out.dtype == torch.uint8
    padded = torch.nn.functional.pad(x, [3] * 4)
    shifts = set()
    for original, moved in zip(padded, out, strict=True):
        found = [
            (r, c, flipped)
            for r in range(7)
            for c in range(7)
            for flipped in (False, True)
            if torch.equal(
                original[:, r : r + 12, c : c + 12].flip(2) if flipped else original[:, r : r + 12, c : c + 12], moved
            )
        ]
        assert len(found) == 1
        shifts.add(found[0])
    assert len(shifts) > 30
    assert {f for *_, f in shifts} == {True, False}
    assert torch.equal(crop_and_flip(x, 0, False, generator()), x)
    assert torch.equal(crop_and_flip(x, 3, True, generator(1)), crop_and_flip(x, 3, True, generator(1)))


def test_rotation_turns_and_keeps_the_middle() -> None:
    x = torch.zeros(200, 1, 21, 21)
    x[:, :, 10, 10] = 1.0
    assert torch.allclose(rotate(x, 5.0, generator())[:, :, 10, 10], torch.ones(200, 1), atol=1e-4)
    x = torch.zeros(200, 1, 21, 21)
    x[:, :, 10, 18] = 1.0
    out = rotate(x, 90.0, generator())
    assert (out[:, 0, 10, 18] < 0.5).float().mean() > 0.9
    square = torch.rand(4, 3, 16, 24)
    assert torch.equal(rotate(square, 0.0, generator()), square)
    assert rotate(square, 5.0, generator()).shape == square.shape
    assert (rotate(square, 5.0, generator()) - square).abs().mean() < 0.2
    inks = torch.randint(5, (4, 1, 16, 16)).float()
    # no value between two pixels
    assert set(rotate(inks, 9.0, generator(), "nearest").unique().tolist()) <= set(range(5))
    assert not torch.equal(rotate(inks, 9.0, generator(), "nearest"), inks)


def test_a_square_is_cut_out_anywhere() -> None:
    x = torch.full((300, 2, 12, 20), 7, dtype=torch.uint8)
    out = cut_out(x, 4, generator())
    assert out.dtype == torch.uint8
    assert set(out.unique().tolist()) == {0, 7}
    black = (out == 0).sum((2, 3))
    assert torch.equal(black[:, 0], black[:, 1])
    assert black.max() == 16
    assert black.min() < 16  # some lie partly outside
    assert (out == 0).any(0).all()  # no pixel is safe
    assert torch.equal(cut_out(x, 0, generator()), x)


def test_what_comes_in_at_a_corner_is_black() -> None:
    """And not gray, which zero would be after normalization."""
    black = Images.all(torch.zeros(8, 1, 28, 28, dtype=torch.uint8), torch.zeros(8, dtype=torch.int64), ("a",))
    loader = Loader(black, 8, (0.5,), (0.5,), (28, 28), torch.device("cpu"), Augmentation(crop=4, rotate=20.0))
    (batch,) = loader.batches(loader.order(generator()), generator())
    assert torch.allclose(batch[0], torch.tensor(-1.0))


def test_normalisation_and_resize() -> None:
    x = normalize(pixels(), (0.5, 0.4, 0.3), (0.2, 0.25, 0.5))
    expected = (pixels().float() / 255 - torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)) / torch.tensor(
        [0.2, 0.25, 0.5]
    ).view(3, 1, 1)
    assert torch.allclose(x, expected, atol=1e-5)
    assert resize(x, (72, 72)).shape[-2:] == (72, 72)
    noise = Images.all(torch.randn(4, 3, 12, 12), torch.arange(4), tuple("abcd"))
    loader = Loader(noise, 4, (0.5,), (0.5,), (12, 12), torch.device("cpu"))
    assert torch.equal(next(loader.plain())[0], noise.pixels)
