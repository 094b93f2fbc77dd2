"""Writes docs/results/*.md: each document's tables beside what its recipes gave here, from the runs kept in docs/results/runs.

`make results`. Nothing on those pages is written by hand but the words around the numbers in this file.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import t as student

from tools.runs import RESULTS, Kept, kept_runs, kept_timings
from vixformer import list_recipes
from vixformer.results.runs import spread

AVERAGES = ("accuracy", "macro avg", "weighted avg")
RUNS: dict[str, list[Kept]] = {}
TIMES: dict[str, dict[str, Any]] = {}


# --- numbers


@dataclass(frozen=True)
class Difference:
    """a - b in points, with the half width of its 95 % interval; None where one run cannot give one."""

    mean: float
    half: float | None

    def __str__(self) -> str:
        return f"{self.mean:+.2f}" + (" (one seed)" if self.half is None else f" ± {self.half:.2f}")

    @property
    def verdict(self) -> str:
        if self.half is None:
            return "one seed, no interval"
        return "within noise" if abs(self.mean) <= self.half else "holds" if self.mean > 0 else "the reverse"


def difference(a: Sequence[float], b: Sequence[float]) -> Difference:
    """Welch's interval for two sets of runs."""
    mean = statistics.fmean(a) - statistics.fmean(b)
    if min(len(a), len(b)) < 2:
        return Difference(mean, None)
    va, vb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    if va + vb == 0:
        return Difference(mean, 0.0)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return Difference(mean, float(student.ppf(0.975, freedom)) * math.sqrt(va + vb))


@dataclass(frozen=True)
class Claim:
    """What a document says: that one thing is above another, or no different from it."""

    text: str
    found: Difference
    equal: bool = False

    @property
    def verdict(self) -> str:
        mean, half = self.found.mean, self.found.half
        if half is None:
            return "one seed says so" if mean > 0 and not self.equal else "one seed says otherwise"
        if self.equal:
            return "no difference found" if abs(mean) <= half else "does not hold"
        return "holds" if mean > half else "does not hold" if mean < -half else "is within noise"


def in_short(claims: Sequence[Claim]) -> str:
    """Two sentences: what holds, and what does not or cannot be told."""
    if not claims:
        return "**In short:** not run yet."
    good = [c for c in claims if c.verdict in ("holds", "no difference found", "one seed says so")]
    rest = [c for c in claims if c not in good]

    def told(some: Sequence[Claim]) -> str:
        return "; ".join(f"{c.text} ({c.found}, {c.verdict})" for c in some) or "nothing"

    return f"**In short:** what holds here: {told(good)}. What does not, or is within noise: {told(rest)}."


def claim(text: str, better: Iterable[str], worse: Iterable[str], equal: bool = False) -> list[Claim]:
    """None where one side has not been run."""
    a, b = tops(better), tops(worse)
    return [Claim(text, difference(a, b), equal)] if a and b else []


def tops(names: Iterable[str]) -> list[float]:
    """Test top-1 of every run of these recipes."""
    return [run.summary["test_top1"] for name in names for run in RUNS.get(name, [])]


def have(names: Sequence[str]) -> bool:
    return all(name in RUNS for name in names)


# --- tables


Column = tuple[str, Callable[[str, dict[str, str]], str]]


def said(key: str) -> Callable[[str, dict[str, str]], str]:
    return lambda _, row: row.get(key, "")


def ours(key: str, digits: int = 2) -> Callable[[str, dict[str, str]], str]:
    def cell(name: str, _: dict[str, str]) -> str:
        values = [run.summary[key] for run in RUNS.get(name, []) if run.summary.get(key) is not None]
        if not values:
            return "not run"
        s = spread(values)
        return f"{s.mean:,.{digits}f}" + ("" if s.sd is None else f" ± {s.sd:.{digits}f}")

    return cell


def best_of(name: str, _: dict[str, str]) -> str:
    """As that work reports it; it grows with the number of runs."""
    return f"{max(tops([name])):.2f}" if name in RUNS else ""


def count(name: str, _: dict[str, str]) -> str:
    return str(len(RUNS[name])) if name in RUNS else ""


def timed(key: str) -> Callable[[str, dict[str, str]], str]:
    def cell(name: str, _: dict[str, str]) -> str:
        found = TIMES.get(name)
        if found is None:
            return ""
        value = found[key]
        return f"{value['median']:.1f}" if isinstance(value, dict) else f"{value:.0f}"

    return cell


def ratio(key: str, base: str, reported: str | None = None) -> Callable[[str, dict[str, str]], str]:
    """Of a time to that of the exact model; of what the document reported where `reported` names its column."""

    def cell(name: str, row: dict[str, str]) -> str:
        exact = name.rpartition("/")[0] + "/" + base
        if reported is not None:
            theirs = REPORTED.get(exact, {}).get(reported)
            return f"{float(row[reported]) / float(theirs):.2f}" if theirs and row.get(reported) else ""
        if name not in TIMES or exact not in TIMES:
            return ""
        mine, its = (TIMES[n][key]["median"] if isinstance(TIMES[n][key], dict) else TIMES[n][key] for n in (name, exact))
        return f"{mine / its:.2f}"

    return cell


REPORTED: dict[str, dict[str, str]] = {}


def read_reported(document: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader((RESULTS / "reported" / f"{document}.csv").read_text().splitlines()))
    REPORTED.update({row["recipe"]: row for row in rows})
    return rows


def table(names: Sequence[str], columns: Sequence[Column]) -> str:
    lines = ["| recipe | " + " | ".join(title for title, _ in columns) + " |", "|---" + "|--:" * len(columns) + "|"]
    for name in names:
        row = REPORTED.get(name, {})
        lines.append(f"| `{name}` | " + " | ".join(cell(name, row) for _, cell in columns) + " |")
    return "\n".join(lines)


def settings(names: Iterable[str]) -> str:
    """What was cut, where, and how often, from the runs themselves."""
    runs = [run for name in names for run in RUNS.get(name, [])]
    if not runs:
        return "None of these has been run here yet."
    machine = runs[0].summary["machine"]
    epochs = sorted({run.recipe["train"]["epochs"] for run in runs})
    images = sorted({run.summary["train_images"] for run in runs})
    seeds = sorted({len(RUNS[name]) for name in names if name in RUNS})
    classes = sorted({len([name for name in run.summary["per_class"] if name not in AVERAGES]) for run in runs})
    precision = sorted({run.recipe["train"]["precision"] for run in runs})
    return (
        f"Here: {_list(epochs)} epochs on {_list(f'{n:,}' for n in images)} training images of {_list(classes)} classes, "
        f"{_list(precision)}, "
        f"{_list(seeds)} seed{'' if seeds == [1] else 's'} (mean ± standard deviation), {machine['processor']}, {machine['threads']} "
        f"threads, torch "
        f"{machine['torch']}. Test accuracy is that of the epoch chosen on validation."
    )


def _list(values: Iterable[Any]) -> str:
    return " or ".join(str(v) for v in values)


def bullet(question: str, answer: str) -> str:
    return f"* {question} {answer}"


# --- the documents


LAYOUTS = ("all", "alternate", "first", "last")
KERNELS = ("relu", "softmax")


def hybrid() -> str:
    rows = read_reported("hybrid")
    parts = [
        '# "Hybrid Transformer Models with Performer and Regular Attention"',
        "Five layouts of exact and Performer attention over depth, two kernels, numbers of features. Its figures are the best test "
        "epoch of one "
        "seed after 50 epochs; times on an Apple M3 (tables 1, 2) and an NVIDIA T4 (table 3).",
    ]
    for data, title in (("mnist", "MNIST (table 1)"), ("cifar10", "CIFAR-10 (table 2)")):
        names = [row["recipe"] for row in rows if row["recipe"].startswith(f"hybrid/{data}/")]
        columns: list[Column] = [
            ("reported top-1", said("test_top1")),
            ("top-1 here", ours("test_top1")),
            ("runs", count),
            ("reported s / epoch, to exact", ratio("", "all-standard", "seconds_an_epoch")),
            ("step here, to exact", ratio("step_ms", "all-standard")),
            ("reported inference, to exact", ratio("", "all-standard", "inference_ms")),
            ("inference here, to exact", ratio("inference_ms", "all-standard")),
        ]
        parts += [f"## {title}", settings(names), in_short(_hybrid_claims(data)), table(names, columns), _hybrid_questions(data)]
    names = [row["recipe"] for row in rows if row["recipe"].startswith("hybrid/imagenet/")]
    columns = [
        ("reported s / epoch", said("seconds_an_epoch")),
        ("to exact", ratio("", "all-standard", "seconds_an_epoch")),
        ("s / epoch here, extrapolated", timed("seconds_an_epoch")),
        ("to exact", ratio("step_ms", "all-standard")),
        ("reported inference ms", said("inference_ms")),
        ("to exact", ratio("", "all-standard", "inference_ms")),
        ("inference ms here", timed("inference_ms")),
        ("to exact", ratio("inference_ms", "all-standard")),
    ]
    parts += [
        "## Noise of ImageNet's size (table 3)",
        "224 x 224, patches of 8, 785 tokens, batches of 64, 128 features. Here: the median of 20 training steps and of 20 "
        "inferences of every row, "
        "all rows in turn; seconds an epoch are extrapolated from the step to 9,000 of 10,000 images.",
        table(names, columns),
        _imagenet_answer(names),
    ]
    return "\n\n".join(parts)


def _hybrid_claims(data: str) -> list[Claim]:
    def some(layout: str, kernel: str = "", features: str = "") -> list[str]:
        start = f"hybrid/{data}/{layout}-{kernel}" if layout else f"hybrid/{data}/"
        return [n for n in RUNS if n.startswith(start) and n.endswith(features) and "standard" not in n]

    exact = [f"hybrid/{data}/all-standard"]
    claims = [
        *claim("hybrids are no worse than exact attention", [*some("alternate"), *some("first"), *some("last")], exact, equal=True),
        *claim("Performers first beat Performers last", some("first"), some("last")),
        *claim("Performers first beat alternating ones", some("first"), some("alternate")),
        *claim("with Performers last ReLU beats softmax", some("last", "relu"), some("last", "softmax")),
        *claim("when alternating the kernel does not matter", some("alternate", "relu"), some("alternate", "softmax"), equal=True),
        *claim("64 features are no better than 16", some("", features="-64"), some("", features="-16"), equal=True),
    ]
    if data == "cifar10":
        claims += claim("with Performers first softmax beats ReLU", some("first", "softmax"), some("first", "relu"))
    return claims


def _hybrid_questions(data: str) -> str:
    base = f"hybrid/{data}/"
    groups = {layout: [n for n in RUNS if n.startswith(f"{base}{layout}-") and n != base + "all-standard"] for layout in LAYOUTS}
    exact = tops([base + "all-standard"])
    if not exact or not all(groups.values()):
        return ""
    lines = []
    for layout, names in groups.items():
        each = {name: statistics.fmean(tops([name])) for name in names}
        d = difference(tops(names), exact)
        lines.append(
            f"`{layout}` {min(each.values()):.2f} / {statistics.fmean(each.values()):.2f} / {max(each.values()):.2f}, {d} to exact "
            f"({_about(d)})"
        )
    answers = [bullet("**1. Do hybrids match exact attention?** Worst, mean and best of the configurations:", "; ".join(lines) + ".")]
    best, rest = max(groups, key=lambda g: statistics.fmean(tops(groups[g]))), difference(tops(groups["first"]), tops(groups["last"]))
    answers.append(
        bullet(
            "**2. Which placement is best?**",
            f"The highest mean is `{best}`; Performers first minus Performers last: {rest} ({rest.verdict}).",
        )
    )
    kernels = []
    for layout, names in groups.items():
        d = difference(tops(n for n in names if "-relu-" in n), tops(n for n in names if "-softmax-" in n))
        kernels.append(f"`{layout}` {d} ({_about(d)})")
    answers.append(bullet("**3. Does the kernel matter?** ReLU minus softmax:", "; ".join(kernels) + "."))
    many, few = (tops(n for names in groups.values() for n in names if n.endswith(f"-{m}")) for m in (64, 16))
    d = difference(many, few)
    answers.append(bullet("**4. Do more features help?**", f"64 minus 16, all layouts and kernels: {d} ({_about(d)})."))
    answers.append(bullet("**5. Do they learn more slowly at first?**", _dynamics(base, groups)))
    answers.append(bullet("**6. Are they faster?**", _faster(base, groups)))
    return "\n".join(answers)


def _about(d: Difference) -> str:
    return d.verdict if d.half is None or abs(d.mean) <= d.half else "more than noise"


def _dynamics(base: str, groups: dict[str, list[str]]) -> str:
    def validation(names: Iterable[str], epoch: int) -> list[float]:
        return [run.history[epoch]["val_top1"] for name in names for run in RUNS[name]]

    first = {layout: difference(validation(names, 0), validation([base + "all-standard"], 0)) for layout, names in groups.items()}
    last = {layout: difference(validation(names, -1), validation([base + "all-standard"], -1)) for layout, names in groups.items()}
    said_ = "; ".join(f"`{g}` {first[g]} ({_about(first[g])}), then {last[g]} ({_about(last[g])})" for g in groups)
    return f"Validation top-1 minus exact, after the first epoch and after the last: {said_}."


def _faster(base: str, groups: dict[str, list[str]]) -> str:
    exact = TIMES.get(base + "all-standard")
    if exact is None:
        return "Not timed yet."
    ratios = {n: TIMES[n]["step_ms"]["median"] / exact["step_ms"]["median"] for names in groups.values() for n in names if n in TIMES}
    looks = {n: TIMES[n]["inference_ms"]["median"] / exact["inference_ms"]["median"] for n in ratios}
    return (
        f"Relative to exact attention a training step takes {min(ratios.values()):.2f} to {max(ratios.values()):.2f}, inference "
        f"{min(looks.values()):.2f} to {max(looks.values()):.2f}; {sum(r < 1 for r in ratios.values())} of {len(ratios)} train faster."
    )


def _imagenet_answer(names: Sequence[str]) -> str:
    if not all(name in TIMES for name in names):
        return bullet("**7. Does it pay at ImageNet's length?**", "Not timed yet.")
    exact = TIMES[names[0] if names[0].endswith("standard") else "hybrid/imagenet/all-standard"]
    ratios = {n.rpartition("/")[2]: TIMES[n]["step_ms"]["median"] / exact["step_ms"]["median"] for n in names}
    faster = [n for n, r in ratios.items() if r < 1]
    return bullet(
        "**7. Does it pay at ImageNet's length?**",
        f"{len(faster)} of {len(names) - 1} layouts with Performers train faster than exact attention here; all ReLU Performers take "
        f"{ratios['all-relu-128']:.2f} of its step (reported: {89.4 / 136.3:.2f}), all softmax {ratios['all-softmax-128']:.2f} "
        f"({105.3 / 136.3:.2f}).",
    )


def fast_attention() -> str:
    rows = read_reported("fast-attention")
    parts = [
        '# "Exploring Fast Attention Mechanisms: Performer vs Vision Transformers for Image Classification"',
        "ViT beside Performers with ReLU, softmax (its exp) and a learned matrix (f-theta), experiments I to IX. Its figures are the "
        "largest test accuracy of "
        "one run of 70 to 84 epochs and seconds an epoch on an NVIDIA A10; memory is relative to its ViT.",
    ]
    for data, experiments, title in (("CIFAR-10", range(1, 5), "I to IV"), ("Tiny ImageNet", range(5, 10), "V to IX")):
        names = [row["recipe"] for row in rows if int(row["recipe"].split("/")[1].removeprefix("exp")) in experiments]
        columns: list[Column] = [
            ("reported max top-1", said("max_top1")),
            ("top-1 here", ours("test_top1")),
            ("runs", count),
            ("reported train s, to ViT", ratio("", "vit", "train_seconds")),
            ("step here, to ViT", ratio("step_ms", "vit")),
            ("reported inference, to ViT", ratio("", "vit", "inference_seconds")),
            ("inference here, to ViT", ratio("inference_ms", "vit")),
            ("reported memory", said("resource")),
            ("memory here", ours("resource_used", 0)),
        ]
        parts += [f"## {data}, experiments {title}", settings(names), table(names, columns)]
    return "\n\n".join([*parts[:2], in_short(_fast_claims()), *parts[2:], _fast_questions()])


def _fast_claims() -> list[Claim]:
    claims: list[Claim] = []
    for experiment, where in (("exp1", "on CIFAR-10"), ("exp5", "on Tiny ImageNet with patches of 4")):
        base = f"fast-attention/{experiment}/"
        for model in ("relu", "exp", "ftheta"):
            claims += claim(f"{where} ViT beats performer-{model}", [base + "vit"], [f"{base}performer-{model}"])
        better, worse = ("ftheta", "relu") if experiment == "exp1" else ("exp", "ftheta")
        claims += claim(f"{where} performer-{better} beats performer-{worse}", [f"{base}performer-{better}"], [f"{base}performer-{worse}"])
    for model in ("relu", "exp"):
        many, few = f"fast-attention/exp2/performer-{model}", f"fast-attention/exp1/performer-{model}"
        claims += claim(f"64 {model} features are no better than 16", [many], [few], equal=True)
    return claims


def _fast_questions() -> str:
    lines = []
    for experiment, what in (("exp1", "CIFAR-10, 65 tokens"), ("exp5", "Tiny ImageNet, 257 tokens"), ("exp8", "Tiny ImageNet, 65 tokens")):
        base = f"fast-attention/{experiment}/"
        models = [base + m for m in ("performer-relu", "performer-exp", "performer-ftheta")]
        if have([base + "vit", *models]):
            each = "; ".join(f"{m.rpartition('/')[2]} {difference(tops([m]), tops([base + 'vit']))}" for m in models)
            lines.append(bullet(f"**Accuracy against ViT, {what}:**", each + "."))
        if all(m in TIMES for m in (base + "vit", *models)):
            each = "; ".join(
                f"{m.rpartition('/')[2]} {TIMES[m]['step_ms']['median'] / TIMES[base + 'vit']['step_ms']['median']:.2f}" for m in models
            )
            lines.append(bullet(f"**Step against ViT, {what}:**", each + "."))
    features = [n for i in (1, 3, 2) for n in [f"fast-attention/exp{i}/performer-relu"] if n in RUNS]
    if len(features) == 3:
        lines.append(bullet("**Do more features help?** ReLU with 16, 32, 64:", " / ".join(str(spread(tops([n]))) for n in features) + "."))
    return "\n".join(lines)


def cifar_kernels() -> str:
    names = [row["recipe"] for row in read_reported("cifar-kernels")]
    columns: list[Column] = [
        ("reported top-1", said("test_top1")),
        ("top-1 here", ours("test_top1")),
        ("runs", count),
        ("reported s / epoch", said("seconds_an_epoch")),
        ("s / epoch here", ours("seconds_an_epoch", 1)),
        ("parameters", ours("parameters", 0)),
        ("reported overhead of the learned kernel, %", said("overhead_percent")),
        ("here, %", _overhead),
    ]
    return "\n\n".join(
        [
            '# "Optimizing Image Classification on CIFAR-10 with Transformer Architectures"',
            "ViT, and Performers with five kernels behind three convolutions. All Performers see one token, so their attention "
            "returns v and "
            "the kernel changes nothing but the random numbers; what differs is width, depth, activation and the optimiser. Its "
            "times are of an NVIDIA A100.",
            settings(names),
            in_short(
                [
                    *claim("ReLU beats ViT", ["cifar-kernels/relu"], ["cifar-kernels/vit"]),
                    *claim("GELU beats ReLU", ["cifar-kernels/gelu-4"], ["cifar-kernels/relu"]),
                    *claim("ELU is far below ReLU", ["cifar-kernels/relu"], ["cifar-kernels/elu-4"]),
                    *claim("EXP beats ViT", ["cifar-kernels/exp"], ["cifar-kernels/vit"]),
                    *claim("f-theta beats ViT", ["cifar-kernels/ftheta"], ["cifar-kernels/vit"]),
                ]
            ),
            table(names, columns),
        ]
    )


def _overhead(name: str, _: dict[str, str]) -> str:
    """Of a training step, over the same model with a fixed kernel and as many features."""
    if f"{name}/twin" not in TIMES:
        return ""
    return f"{100 * (TIMES[name]['step_ms']['median'] / TIMES[f'{name}/twin']['step_ms']['median'] - 1):+.1f}"


def linear_tests() -> str:
    reported = [row["recipe"] for row in read_reported("linear-tests")]
    parts = [
        '# "Testing linear-attention Transformers"',
        "A Transformer and a Linformer in torch, Performers in Keras: two networks, so rows of one compare with each other and not "
        "across. Its accuracy is "
        "on validation. Rows from a checkpoint are those of the recipe `transformer` converted.",
    ]
    for data in ("mnist", "cifar10", "cifar100"):
        names = [n for n in reported if n.startswith(f"linear-tests/{data}/")]
        names += [n for n in list_recipes(f"linear-tests/{data}/*") if n not in names]
        columns: list[Column] = [
            ("reported validation top-1", said("val_top1")),
            ("test top-1 here", ours("test_top1")),
            ("validation here", ours("val_top1")),
            ("runs", count),
            ("reported step ms", said("step_ms")),
            ("step ms here", ours("ms_a_step", 0)),
            ("parameters", ours("parameters", 0)),
        ]
        base = f"linear-tests/{data}/"
        claims = [
            *claim("the Transformer beats the Linformer", [base + "transformer"], [base + "linformer"]),
            *claim("more softmax features help", [base + "performer-softmax-128"], [base + "performer-softmax-16"]),
            *claim("more ReLU features do not", [base + "performer-relu-16"], [base + "performer-relu-128"]),
            *claim("without random features ReLU is as good", [base + "deterministic-relu"], [base + "performer-relu-64"], equal=True),
        ]
        parts += [f"## {data}", settings(names), in_short(claims), table(names, columns)]
    return "\n\n".join(parts)


def xformers() -> str:
    rows = read_reported("xformers")
    parts = [
        '# "Vision Xformers: Efficient Attention for Image Classification"',
        "X-former attention in ViT, LeViT, CCT, CvT and PiT, one token a pixel. Its figures are the best of three runs on a P100 or "
        "T4; its size is "
        "torchsummary's estimate with activations. Memory and time of all rows are in [speed.md](../speed.md).",
    ]
    for data, tables, title in (
        ("cifar10", "1356", "CIFAR-10 (tables 1, 3, 5, 6)"),
        ("tiny-imagenet", "24", "Tiny ImageNet (tables 2, 4)"),
    ):
        names = [row["recipe"] for row in rows if row["recipe"].startswith(f"xformers/{data}/") and row["table"] in tables]
        columns: list[Column] = [
            ("reported parameters", said("parameters")),
            ("here", ours("parameters_in_modules", 0)),
            ("reported size, MB", said("size_mb")),
            ("here", ours("torchsummary_mb")),
            ("reported top-1", said("top1")),
            ("here", ours("test_top1")),
            ("reported top-5", said("top5")),
            ("here", ours("test_top5")),
            ("best of its runs, top-1", best_of),
            ("runs", count),
        ]
        parts += [f"## {title}", settings(names), table(names, columns)]
    return "\n\n".join([*parts[:2], in_short(_xformers_claims()), *parts[2:], _xformers_reported()])


CLAIMS = (
    ("vin", "vit", "Nystrom beats exact attention"),
    ("vip", "vit", "Performer beats exact attention"),
    ("vil", "vit", "Linformer beats exact attention"),
    ("vit", "fnet", "ViT beats FNet"),
    ("mixer", "vit", "MLP-Mixer beats ViT"),
    ("hybrid-vit", "vit", "convolutions in front help ViT"),
    ("hybrid-vip", "vip", "they help Performers"),
    ("hybrid-vin", "vin", "they help Nystrom"),
    ("vit-rope", "vit", "rotary positions help ViT"),
)


def _xformers_claims() -> list[Claim]:
    base = "xformers/cifar10/"
    return [c for better, worse, text in CLAIMS for c in claim(text, [base + better], [base + worse])]


def _xformers_reported() -> str:
    """How much the work itself found, beside what was found here."""
    base = "xformers/cifar10/"
    lines = []
    for better, worse, text in CLAIMS:
        for found in claim(text, [base + better], [base + worse]):
            theirs = float(REPORTED[base + better]["top1"]) - float(REPORTED[base + worse]["top1"])
            lines.append(bullet(f"**{text}:**", f"reported {theirs:+.2f}, here {found.found}."))
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "fast-attention": fast_attention,
    "cifar-kernels": cifar_kernels,
    "linear-tests": linear_tests,
    "hybrid": hybrid,
    "xformers": xformers,
}


def pages() -> dict[str, str]:
    RUNS.update(kept_runs())
    TIMES.update(kept_timings())
    made = "`make results` wrote this page from the runs in [runs](runs)."
    return {f"{name}.md": f"{page().rstrip()}\n\n{made}\n" for name, page in PAGES.items()}


def main() -> None:
    for name, text in pages().items():
        (RESULTS / name).write_text(text)


if __name__ == "__main__":
    main()
