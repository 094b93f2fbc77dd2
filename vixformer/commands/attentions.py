"""List the words of the layout language, with their options."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass

from vixformer.expressions import written
from vixformer.options import first_paragraph
from vixformer.registry import Configured
from vixformer.tables import Listed, say, table


@dataclass(frozen=True, kw_only=True)
class Options(Listed):
    pass


def run(options: Options) -> None:
    from vixformer.attention.base import Mechanism
    from vixformer.attention.kernels.kernel import Kernel

    for title, family in (("attention", Mechanism), ("kernel=", Kernel)):
        rows = [_described(cls) for _, cls in sorted(family.members.items())]
        table((title, "options and defaults", "what it is"), rows, name=family.family)
    say(
        'Layouts: "performer + softmax" alternates, "first(performer, n=2, rest=nystrom)" and "last(...)" split the'
        ' depth, "*3" repeats, "a | b" is one pattern for each stage. See docs/attention.md.'
    )


def _described(cls: type[Configured]) -> tuple[str, str, str]:
    fields = [(f.name, getattr(cls.Config(), f.name)) for f in dataclasses.fields(cls.Config)]
    words = [f"{name}={value.owner.name if hasattr(value, 'owner') else written(value)}" for name, value in fields]
    return cls.name, ", ".join(words), first_paragraph(sys.modules[cls.__module__].__doc__)
