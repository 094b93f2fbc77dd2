"""Measure time and memory, and the number of tokens from which one attention is faster than another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import PositiveFloat
from rich.console import Console

from vixformer.commands.flags import Count, Expression
from vixformer.jsonfile import Values
from vixformer.measure.bench import Conditions, Layers, Measured, Models, Sizes
from vixformer.options import File, only, words
from vixformer.tables import Columns, say, table
from vixformer.terminal import count, megabytes

if TYPE_CHECKING:
    from vixformer.measure.load import Watched

USUAL = (
    "softmax",
    "performer(kernel=relu, features=64)",
    "performer(features=64)",
    "linformer(rank=64)",
    "nystrom(landmarks=64)",
    "hedgehog",
)


@dataclass(frozen=True, kw_only=True)
class Written(Columns):
    """Files to write"""

    json: File | None = None
    """File for all numbers, which `vix report` reads."""
    chart: File | None = None
    """File for a chart, such as chart.svg."""


@dataclass(frozen=True, kw_only=True)
class Attention(Written, Sizes):
    """Time and memory of one attention layer at several numbers of tokens."""

    expressions: tuple[Expression, ...] = words(USUAL)
    """Attentions to measure, as layout expressions."""


@dataclass(frozen=True, kw_only=True)
class Model(Written, Models):
    """Time and memory of whole models."""

    expressions: tuple[Expression, ...] = words(USUAL)
    """Attentions to measure, as layout expressions."""


@dataclass(frozen=True, kw_only=True)
class Crossover(Written, Layers):
    """Number of tokens from which each attention is faster than exact attention."""

    expressions: tuple[Expression, ...] = words(tuple(expression for expression in USUAL if expression != "softmax"))
    """Attentions to measure, as layout expressions."""
    against: Expression = "torch"
    """Attention to compare with. The default is torch's scaled_dot_product_attention, or what --runtime makes of it."""
    patch: Count = 16
    """Side of a patch, in pixels, to compute image sizes from numbers of tokens."""
    seconds: PositiveFloat = 1.0
    """Seconds of timing for each number of tokens that is tried."""


Options = {"attention": Attention, "model": Model, "crossover": Crossover}


def run(options: Attention | Model | Crossover) -> None:
    from vixformer.attention.layout import parse

    for expression in options.expressions:
        parse(expression)
    if options.chart is not None:
        from vixformer.results.charts import check_chart

        check_chart(options.chart)
    if options.json is not None and not options.json.parent.is_dir():
        raise ValueError(f"--json {options.json}: there is no folder {options.json.parent}")
    if options.json is not None and options.json.is_dir():
        raise ValueError(f"--json {options.json} is a folder: name a file")
    if isinstance(options, Attention):
        _attention(options)
    elif isinstance(options, Model):
        _model(options)
    else:
        _crossover(options)


def _attention(options: Attention) -> None:
    from vixformer.measure.bench import bench_attention, check_attention
    from vixformer.measure.load import watched
    from vixformer.results.charts import time_against_tokens, write_chart

    expressions, sizes = options.expressions, only(Sizes, options)
    check_attention(expressions, sizes.tokens, sizes)
    with Console(stderr=True).status("timing"), watched(sizes.threads) as timing:
        rows = bench_attention(expressions, sizes)
    _show(rows, sizes, timing, options.json)
    if options.chart is not None:
        each = [1e3 * r.time.min / r.batch / r.tokens for r in rows]
        points = [
            {"attention": r.attention, "tokens": r.tokens, "microseconds a token": us}
            for r, us in zip(rows, each, strict=True)
        ]
        write_chart(time_against_tokens(points, _title("One attention layer", sizes)), options.chart)
        say(f"The chart is in {options.chart}.")


def _model(options: Model) -> None:
    from vixformer.measure.bench import bench_models, check_models
    from vixformer.measure.load import watched
    from vixformer.results.charts import bars, write_chart

    expressions, asked = options.expressions, only(Models, options)
    check_models(asked.models, expressions, asked.options, asked.device)
    with Console(stderr=True).status("timing"), watched(asked.threads) as timing:
        rows = bench_models(asked.models, expressions, asked.options, asked)
    _show(rows, asked, timing, options.json)
    if options.chart is not None:
        points = [{"name": f"{r.what}, {r.attention}", "milliseconds": r.time.min} for r in rows]
        write_chart(bars(points, "milliseconds", _title("Whole models", asked)), options.chart)
        say(f"The chart is in {options.chart}.")


def _title(what: str, asked: Conditions) -> str:
    compiled = ", compiled" if asked.compile else ""
    width = f": width {asked.dim}, {asked.heads} heads" if isinstance(asked, Layers) else ""
    where = f" in {asked.runtime}" if isinstance(asked, Layers) and asked.runtime != "torch" else ""
    return f"{what}{where}, {'training step' if asked.train else 'inference'}, {asked.dtype}{compiled}{width}"


def _show(rows: Sequence[Measured], sizes: Sizes | Models, timing: Watched, to_json: Path | None) -> None:
    from vixformer.measure.machine import in_words
    from vixformer.writing import write_json

    cells = []
    for r in rows:
        cells.append(
            (
                r.what, r.attention, count(r.tokens), count(r.batch), f"{r.time.median:.2f}", f"{r.time.min:.2f}",
                f"{r.time.sd:.2f}",
                str(r.ratio or ("1.00" if r.attention == "softmax" else "")), f"{r.images_a_second:,.0f}",
                _short(r.of_gemm),
                _short(r.multiply_adds / 1e6), megabytes(r.kept), "" if r.peak is None else megabytes(r.peak),
            )
        )  # fmt: skip
    columns = (
        "model", "attention", "tokens", "batch", "median ms", "least ms", "sd", "x exact", "images/s", "of GEMM",
        "M multiply-adds", "kept", "peak",
    )  # fmt: skip
    table(
        columns, cells, ("sd", "of GEMM", "M multiply-adds", "least ms", "kept", "batch", "peak", "images/s", "model")
    )
    facts = _facts(sizes, timing)
    where = f" in {sizes.runtime}" if isinstance(sizes, Layers) and sizes.runtime != "torch" else ""
    step = "a training step" if sizes.train else f"inference{where}"
    compiled = ", compiled" if sizes.compile else ""
    say(
        f"{in_words(facts)}, {sizes.dtype}{compiled}; {step}: median, least and standard deviation of"
        f" {min(r.time.count for r in rows)} calls or more, all in turn; x exact is the median over pairs of calls,"
        " with its 95 % interval."
    )
    say(timing.told(r.time for r in rows))
    if to_json is not None:
        write_json(
            to_json,
            {"machine": facts, "load": asdict(timing.load), "sizes": asdict(sizes), "rows": [asdict(r) for r in rows]},
        )
        say(f"The figures are in {to_json}.")


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _facts(sizes: Conditions, timing: Watched) -> Values:
    from vixformer.measure.machine import machine, usable

    return machine(usable(sizes.device, "device")) | {"threads": timing.threads}


def _crossover(options: Crossover) -> None:
    from vixformer.measure.bench import check_attention
    from vixformer.measure.crossover import FEWEST, MOST, Crossing, crossover
    from vixformer.measure.load import watched
    from vixformer.measure.machine import in_words
    from vixformer.results.charts import time_against_tokens, write_chart
    from vixformer.writing import write_json

    patch, against, expressions, sizes = options.patch, options.against, options.expressions, only(Layers, options)
    check_attention([*expressions, *([] if against == "torch" else [against])], (FEWEST,), sizes)
    found: list[Crossing] = []
    with Console(stderr=True).status("bisecting") as status, watched(sizes.threads) as timing:
        for e in expressions:
            found.append(
                crossover(
                    e, sizes, against, lambda p, e=e: status.update(f"{e}: {p.tokens} tokens, {p.ratio:.2f} of exact")
                )
            )
    rows = []
    for c in found:
        never, always = c.faster_at is None, c.slower_at is None
        between = (
            f"none up to {count(MOST)}"
            if never
            else f"{c.faster_at} or fewer"
            if always
            else f"{c.slower_at} to {c.faster_at}"
        )
        rows.append((c.attention, between, "" if never else f"{c.side(patch)} x {c.side(patch)}", str(len(c.probes))))
    table(("attention", "faster from tokens", f"image, patches of {patch}", "comparisons"), rows, ("comparisons",))
    own = "torch's scaled_dot_product_attention" if sizes.runtime == "torch" else f"{sizes.runtime}'s exact attention"
    exact = own if against == "torch" else against
    facts = _facts(sizes, timing)
    say(
        f"{in_words(facts)}. Against {exact}, {'training' if sizes.train else 'inference'}, "
        f"width {sizes.dim}, {sizes.heads} heads, {sizes.dtype}: slower at the first number of tokens and "
        "faster at the second, each with 95 % confidence, or too close to tell in between."
    )
    say(timing.told())
    if options.json is not None:
        found_json = {"against": exact, "crossings": [asdict(c) for c in found]}
        write_json(options.json, {"machine": facts, "load": asdict(timing.load), "sizes": asdict(sizes), **found_json})
        say(f"The figures are in {options.json}.")
    if options.chart is not None:
        least: dict[tuple[str, int], float] = {}
        for c in found:
            for p in c.probes:
                for name, us in ((exact, p.exact_us), (c.attention, p.this_us)):
                    least[name, p.tokens] = min(us, least.get((name, p.tokens), us))
        points = [
            {"attention": name, "tokens": n, "microseconds a token": us}
            for (name, n), us in sorted(least.items(), key=lambda i: i[0][1])
        ]
        write_chart(time_against_tokens(points, _title("One attention layer", sizes)), options.chart)
        say(f"The chart is in {options.chart}.")
