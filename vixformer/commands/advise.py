"""Recommend an attention for your image size and your machine, with the reason."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich.console import Console

from vixformer.commands.flags import left_out
from vixformer.measure.advise import Question, check, mixers, with_sizes_of_model
from vixformer.measure.advise import advise as ask
from vixformer.options import only
from vixformer.tables import Columns, say, table
from vixformer.terminal import megabytes


@dataclass(frozen=True, kw_only=True)
class Options(Columns, Question):
    infer: bool = False
    """Time inference, which is the default."""
    json: bool = False
    """Print the answer and all timings as JSON."""


def run(options: Options) -> None:
    from vixformer.measure.load import watched

    if options.train and options.infer:
        raise ValueError("--train or --infer, not both: leave one out")
    question = with_sizes_of_model(only(Question, options))
    check(question)
    with Console(stderr=True).status("measuring") as status, watched() as timing:
        found = ask(question, lambda text: status.update(text))
    if options.json:
        print(
            json.dumps(
                {"question": asdict(question), "tokens": question.tokens, **asdict(found), **timing.to_dict()}, indent=2
            )
        )
        return
    if told := left_out(question.image, question.patch):
        say(f"Note: {told}.")
    best = found.layers[:8]
    say(f"One attention layer at {question.tokens} tokens, the fastest of {len(found.layers)} and exact attention:")
    shown = [*best, *(m for m in found.layers if m.attention == "softmax" and m not in best)]
    table(
        ("attention", "median ms", "least ms"),
        [(m.attention, f"{m.time.median:.2f}", f"{m.time.min:.2f}") for m in shown],
        name="layers",
    )
    say("The whole model:")
    rows = [
        (
            m.attention,
            f"{m.time.median:.1f}",
            f"{m.time.min:.1f}",
            str(m.ratio or "1.00"),
            *([] if question.memory is None else ["" if m.peak is None else megabytes(m.peak)]),
        )
        for m in found.models
    ]
    columns = ("attention", "median ms", "least ms", "x exact", *([] if question.memory is None else ["peak"]))
    table(columns, rows, ("least ms", "peak"), "models")
    say(
        f"Not timed: {' and '.join(mixers())}. They have no queries and keys, so they cannot replace attention in a"
        " trained model; vix bench model times them."
    )
    if not found.fits:
        say("Nothing that was measured stays within the given limits; this is the nearest.")
    say(f'Use --attention "{found.attention}". {found.reason}')
    if found.ties:
        say(f"Equally fast, within the measurement error: {', '.join(found.ties)}.")
    say(timing.told(m.time for m in (*found.layers, *found.models)))
    if found.attention != "softmax":
        say(
            "What it costs in accuracy depends on the images: see docs/results; vix convert --choose measures it on a"
            " trained model."
        )
