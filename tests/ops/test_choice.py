"""When a kernel runs, and when torch does."""

from __future__ import annotations

import torch

from tests.support.kernels import compiler
from vixformer import ops
from vixformer.ops import choice


def test_a_gradient_is_wanted_where_autograd_will_ask_for_it() -> None:
    plain, learned = torch.zeros(2), torch.zeros(2, requires_grad=True)
    assert not choice.wanted(None, plain)
    assert choice.wanted(None, plain, learned)
    with torch.no_grad():
        assert not choice.wanted(learned)


def test_room_is_the_tensor_itself_where_nobody_else_needs_it() -> None:
    plain, learned = torch.zeros(2), torch.zeros(2, requires_grad=True)
    assert choice.room(plain) is plain
    assert choice.room(learned) is None

    def inside(x: torch.Tensor) -> torch.Tensor:
        assert choice.room(x) is None
        return x

    torch.func.vmap(inside)(torch.zeros(3, 2))


@compiler
def test_a_kernel_takes_plain_tensors_of_a_type_it_knows() -> None:
    plain = torch.zeros(2)
    assert choice.kernel_takes(plain, None)
    assert not choice.kernel_takes(plain, plain.double())
    assert choice.kernel_takes(plain.bfloat16(), dtypes=(torch.float32, torch.bfloat16))
    assert not choice.kernel_takes(plain.to("meta"))
    assert not choice.kernel_takes(_Other(plain))
    with ops.portable():
        assert not choice.kernel_takes(plain)
    assert choice.kernel_takes(plain)


@compiler
def test_what_sees_through_operations_gets_those_of_torch() -> None:
    seen: list[bool] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(choice.kernel_takes(x) or choice.eager() or choice.unwatched())
        return x + 1

    torch.func.vmap(look)(torch.zeros(3, 2))
    torch.func.grad(lambda x: look(x).sum())(torch.zeros(2))
    assert seen == [False, False]
    assert choice.eager() and choice.unwatched()


class _Other(torch.Tensor):
    """A tensor of a library that wants to see every operation."""

    @staticmethod
    def __new__(cls, x: torch.Tensor) -> _Other:
        return torch.Tensor._make_subclass(cls, x)
