"""Build a model of every mechanism, and print tokens, parameters, multiply-adds and milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from vixformer.tables import Shown, say, table
from vixformer.terminal import count


@dataclass(frozen=True, kw_only=True)
class Options(Shown):
    pass


def run(options: Options) -> None:
    from vixformer.measure.load import watched
    from vixformer.measure.overview import every_attention
    from vixformer.measure.overview import overview as measured

    batch = 8
    say(
        f"ViTs for 32 x 32 images, width 128, depth 4, 4 heads; patches of 4 and of 1; times for {batch} images,"
        " inference, min of n"
    )
    with Console(stderr=True).status("building and timing"), watched() as timing:
        rows = measured(every_attention(), batch=batch)
    exact = {row.tokens: row.ms for row in rows if row.attention == "softmax"}
    table(
        ("attention", "tokens", "parameters", "multiply-adds", "ms", "x exact"),
        [
            (
                r.attention,
                *map(count, (r.tokens, r.parameters.all, r.multiply_adds)),
                f"{r.ms:.1f}",
                f"{r.ms / exact[r.tokens]:.2f}",
            )
            for r in rows
        ],
    )
    small = min(exact)
    slower = [r for r in rows if r.tokens == small and r.ms > exact[small]]
    say(
        f'"x exact" above 1 is slower than exact attention, as {len(slower)} of {len(rows) // len(exact) - 1} are at'
        f" {small} tokens."
    )
    say(timing.told())
