"""Measure time and memory, and the number of tokens from which one attention is faster than another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pydantic import PositiveFloat
from rich.console import Console

from vixformer.attention.layout import parse
from vixformer.commands.flags import Count, Expression
from vixformer.jsonfile import Values
from vixformer.measure import crossover as crossing
from vixformer.measure.bench import (
    Conditions,
    Layers,
    Measured,
    Models,
    Sizes,
    bench_attention,
    bench_models,
    check_attention,
    check_models,
)
from vixformer.measure.load import Watched, watched
from vixformer.measure.machine import in_words, machine, usable
from vixformer.options import File, only, words
from vixformer.results.charts import bars, time_against_tokens, write_chart
from vixformer.tables import Columns, say, table
from vixformer.terminal import count, megabytes
from vixformer.writing import write_json

if TYPE_CHECKING:
    from altair import TopLevelMixin

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
    sizes = only(Sizes, options)
    check_attention(options.expressions, sizes.tokens, sizes)
    with Console(stderr=True).status("timing"), watched(sizes.threads) as timing:
        rows = bench_attention(options.expressions, sizes)
    _show(rows, sizes, timing)
    points = [
        {"attention": r.attention, "tokens": r.tokens, "microseconds a token": 1e3 * r.time.min / r.batch / r.tokens}
        for r in rows
    ]
    title = _title("One attention layer", sizes)
    _keep(options, sizes, timing, {"rows": [asdict(r) for r in rows]}, lambda: time_against_tokens(points, title))


def _model(options: Model) -> None:
    asked = only(Models, options)
    check_models(asked.models, options.expressions, asked.options, asked.device)
    with Console(stderr=True).status("timing"), watched(asked.threads) as timing:
        rows = bench_models(asked.models, options.expressions, asked.options, asked)
    _show(rows, asked, timing)
    points = [{"name": f"{r.what}, {r.attention}", "milliseconds": r.time.min} for r in rows]
    title = _title("Whole models", asked)
    _keep(options, asked, timing, {"rows": [asdict(r) for r in rows]}, lambda: bars(points, "milliseconds", title))


def _keep(
    options: Written, sizes: Conditions, timing: Watched, found: Values, draw: Callable[[], TopLevelMixin]
) -> None:
    """In the files that were asked for."""
    if options.json is not None:
        facts: Values = {"machine": _facts(sizes, timing), "load": asdict(timing.load), "sizes": asdict(sizes)}
        write_json(options.json, facts | found)
        say(f"The figures are in {options.json}.")
    if options.chart is not None:
        write_chart(draw(), options.chart)
        say(f"The chart is in {options.chart}.")


def _title(what: str, asked: Conditions) -> str:
    width = f": width {asked.dim}, {asked.heads} heads" if isinstance(asked, Layers) else ""
    step = "training step" if asked.train else "inference"
    return f"{what}{_program(asked)}, {step}, {_format(asked)}{width}"


def _program(asked: Conditions) -> str:
    return f" in {asked.runtime}" if isinstance(asked, Layers) and asked.runtime != "torch" else ""


def _format(asked: Conditions) -> str:
    return asked.dtype + (", compiled" if asked.compile else "")


def _show(rows: Sequence[Measured], sizes: Sizes | Models, timing: Watched) -> None:
    columns: dict[str, Callable[[Measured], str]] = {
        "model": lambda r: r.what,
        "attention": lambda r: r.attention,
        "tokens": lambda r: count(r.tokens),
        "batch": lambda r: count(r.batch),
        "median ms": lambda r: f"{r.time.median:.2f}",
        "least ms": lambda r: f"{r.time.min:.2f}",
        "sd": lambda r: f"{r.time.sd:.2f}",
        "x exact": lambda r: str(r.ratio or ("1.00" if r.attention == "softmax" else "")),
        "images/s": lambda r: f"{r.images_a_second:,.0f}",
        "of GEMM": lambda r: _short(r.of_gemm),
        "M multiply-adds": lambda r: _short(r.multiply_adds / 1e6),
        "kept": lambda r: megabytes(r.kept),
        "peak": lambda r: "" if r.peak is None else megabytes(r.peak),
    }
    drop = ("sd", "of GEMM", "M multiply-adds", "least ms", "kept", "batch", "peak", "images/s", "model")
    table(list(columns), [[cell(r) for cell in columns.values()] for r in rows], drop)
    step = "a training step" if sizes.train else f"inference{_program(sizes)}"
    say(
        f"{in_words(_facts(sizes, timing))}, {_format(sizes)}; {step}: median, least and standard deviation of"
        f" {min(r.time.count for r in rows)} calls or more, all in turn; x exact is the median over pairs of calls,"
        " with its 95 % interval."
    )
    say(timing.told(r.time for r in rows))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"


def _facts(sizes: Conditions, timing: Watched) -> Values:
    return machine(usable(sizes.device, "device")) | {"threads": timing.threads}


def _crossover(options: Crossover) -> None:
    patch, against, expressions, sizes = options.patch, options.against, options.expressions, only(Layers, options)
    check_attention([*expressions, *([] if against == "torch" else [against])], (crossing.FEWEST,), sizes)
    found: list[crossing.Crossing] = []
    with Console(stderr=True).status("bisecting") as status, watched(sizes.threads) as timing:
        for e in expressions:

            def tell(p: crossing.Probe, e: str = e) -> None:
                status.update(f"{e}: {p.tokens} tokens, {p.ratio:.2f} of exact")

            found.append(crossing.crossover(e, sizes, against, tell))
    rows = []
    for c in found:
        if c.faster_at is None:
            between, side = f"none up to {count(crossing.MOST)}", ""
        else:
            between = f"{c.faster_at} or fewer" if c.slower_at is None else f"{c.slower_at} to {c.faster_at}"
            side = f"{c.side(patch)} x {c.side(patch)}"
        rows.append((c.attention, between, side, str(len(c.probes))))
    table(("attention", "faster from tokens", f"image, patches of {patch}", "comparisons"), rows, ("comparisons",))
    own = "torch's scaled_dot_product_attention" if sizes.runtime == "torch" else f"{sizes.runtime}'s exact attention"
    exact = own if against == "torch" else against
    say(
        f"{in_words(_facts(sizes, timing))}. Against {exact}, {'training' if sizes.train else 'inference'}, "
        f"width {sizes.dim}, {sizes.heads} heads, {sizes.dtype}: slower at the first number of tokens and "
        "faster at the second, each with 95 % confidence, or too close to tell in between."
    )
    say(timing.told())
    least: dict[tuple[str, int], float] = {}
    for c in found:
        for p in c.probes:
            for name, us in ((exact, p.exact_us), (c.attention, p.this_us)):
                least[name, p.tokens] = min(us, least.get((name, p.tokens), us))
    points = [
        {"attention": name, "tokens": n, "microseconds a token": us}
        for (name, n), us in sorted(least.items(), key=lambda i: i[0][1])
    ]
    title = _title("One attention layer", sizes)
    crossings = {"against": exact, "crossings": [asdict(c) for c in found]}
    _keep(options, sizes, timing, crossings, lambda: time_against_tokens(points, title))
