"""docs/results/hybrid.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tools.pages.tables import (
    RUNS,
    TIMES,
    Column,
    apart,
    bullet,
    claim,
    count,
    ours,
    ratio,
    reported,
    said,
    said_ratio,
    settings,
    slower,
    table,
    timed,
    tops,
)
from vixformer.results.statistics import Claim, a_seed, difference, in_short

LAYOUTS = ("all", "alternate", "first", "last")
KERNELS = ("relu", "softmax")


def page() -> str:
    parts = [
        '# "Hybrid Transformer Models with Performer and Regular Attention"',
        "Five layouts of exact and Performer attention over depth, two kernels, numbers of features. Its figures are the best test "
        "epoch of one seed after 50 epochs; times on an Apple M3 (tables 1, 2) and an NVIDIA T4 (table 3).",
    ]
    for data, title in (("mnist", "MNIST (table 1)"), ("cifar10", "CIFAR-10 (table 2)")):
        names = reported(f"hybrid/{data}/")
        columns: list[Column] = [
            ("reported top-1", said("test_top1")),
            ("top-1 here", ours("test_top1")),
            ("runs", count),
            ("reported s / epoch, to exact", said_ratio("seconds_an_epoch", "all-standard")),
            ("step here, to exact", ratio("step_ms", "all-standard")),
            ("reported inference, to exact", said_ratio("inference_ms", "all-standard")),
            ("inference here, to exact", ratio("inference_ms", "all-standard")),
        ]
        parts += [f"## {title}", settings(names), in_short(_claims(data)), table(names, columns), _questions(data)]
    return "\n\n".join([*parts, *_imagenet()])


def _claims(data: str) -> list[Claim]:
    def some(layout: str, kernel: str = "", features: str = "") -> list[str]:
        start = f"hybrid/{data}/{layout}-{kernel}" if layout else f"hybrid/{data}/"
        return [n for n in RUNS if n.startswith(start) and n.endswith(features) and "standard" not in n]

    exact = [f"hybrid/{data}/all-standard"]
    claims = [
        *claim("hybrids are no worse than exact attention", [*some("alternate"), *some("first"), *some("last")], exact, says="not below"),
        *claim("Performers first beat Performers last", some("first"), some("last")),
        *claim("Performers first beat alternating ones", some("first"), some("alternate")),
        *claim("with Performers last ReLU beats softmax", some("last", "relu"), some("last", "softmax")),
        *claim("when alternating the kernel does not matter", some("alternate", "relu"), some("alternate", "softmax"), says="equal"),
    ]
    many, few = some("", features="-64"), some("", features="-16")
    if data == "mnist":
        claims += claim("64 features are no better than 16", many, few, says="not above")
    else:
        claims += claim("64 features beat 16", many, few)
        claims += claim("with Performers first softmax beats ReLU", some("first", "softmax"), some("first", "relu"))
    return claims


def _questions(data: str) -> str:
    base = f"hybrid/{data}/"
    groups = {layout: [n for n in RUNS if n.startswith(f"{base}{layout}-") and n != base + "all-standard"] for layout in LAYOUTS}
    exact = [base + "all-standard"]
    kernels = {layout: [[n for n in names if f"-{kernel}-" in n] for kernel in KERNELS] for layout, names in groups.items()}
    if not tops(exact) or not all(all(pair) for pair in kernels.values()):
        return ""
    lines = []
    for layout, names in groups.items():
        means = [statistics.fmean(tops([name])) for name in names]
        d = apart(names, exact)
        lines.append(f"`{layout}` {min(means):.2f} / {statistics.fmean(means):.2f} / {max(means):.2f}, {d} to exact ({d.about})")
    answers = [bullet("**1. Do hybrids match exact attention?** Worst, mean and best of the configurations:", "; ".join(lines) + ".")]
    best, rest = max(groups, key=lambda g: statistics.fmean(tops(groups[g]))), apart(groups["first"], groups["last"])
    answers.append(
        bullet(
            "**2. Which placement is best?**",
            f"The highest mean is `{best}`; Performers first minus Performers last: {rest} ({rest.verdict}).",
        )
    )
    each = {layout: apart(relu, softmax) for layout, (relu, softmax) in kernels.items()}
    told = "; ".join(f"`{layout}` {d} ({d.about})" for layout, d in each.items())
    answers.append(bullet("**3. Does the kernel matter?** ReLU minus softmax:", told + "."))
    many, few = ([n for names in groups.values() for n in names if n.endswith(f"-{m}")] for m in (64, 16))
    if many and few:
        d = apart(many, few)
        answers.append(bullet("**4. Do more features help?**", f"64 minus 16, all layouts and kernels: {d} ({d.about})."))
    answers.append(bullet("**5. Do they learn more slowly at first?**", _dynamics(base, groups)))
    answers.append(bullet("**6. Are they faster?**", _faster(base, groups)))
    return "\n".join(answers)


def _dynamics(base: str, groups: dict[str, list[str]]) -> str:
    def validation(names: Iterable[str], epoch: int) -> list[float]:
        return a_seed((run.summary["seed"], run.history[epoch]["val_top1"]) for name in names for run in RUNS[name])

    first = {layout: difference(validation(names, 0), validation([base + "all-standard"], 0)) for layout, names in groups.items()}
    last = {layout: difference(validation(names, -1), validation([base + "all-standard"], -1)) for layout, names in groups.items()}
    each = "; ".join(f"`{g}` {first[g]} ({first[g].about}), then {last[g]} ({last[g].about})" for g in groups)
    return f"Validation top-1 minus exact, after the first epoch and after the last: {each}."


def _faster(base: str, groups: dict[str, list[str]]) -> str:
    exact = base + "all-standard"
    if exact not in TIMES:
        return "Not timed yet."
    names = [n for group in groups.values() for n in group if n in TIMES]
    steps, looks = ([slower(n, exact, key) for n in names] for key in ("step_ms", "inference_ms"))
    return (
        f"Relative to exact attention a training step takes {min(steps):.2f} to {max(steps):.2f}, inference "
        f"{min(looks):.2f} to {max(looks):.2f}; {sum(r < 1 for r in steps)} of {len(steps)} train faster."
    )


def _imagenet() -> list[str]:
    names = reported("hybrid/imagenet/")
    columns: list[Column] = [
        ("reported s / epoch", said("seconds_an_epoch")),
        ("to exact", said_ratio("seconds_an_epoch", "all-standard")),
        ("s / epoch here, extrapolated", timed("seconds_an_epoch")),
        ("to exact", ratio("step_ms", "all-standard")),
        ("reported inference ms", said("inference_ms")),
        ("to exact", said_ratio("inference_ms", "all-standard")),
        ("inference ms here", timed("inference_ms")),
        ("to exact", ratio("inference_ms", "all-standard")),
    ]
    return [
        "## Noise of ImageNet's size (table 3)",
        "224 x 224, patches of 8, 785 tokens, batches of 64, 128 features. Here: the median of 20 training steps and of 20 "
        f"inferences of every row{_batches(names)}, all rows in turn; seconds an epoch are extrapolated from the step to 10,000 "
        "images.",
        table(names, columns),
        bullet("**7. Does it pay at ImageNet's length?**", _imagenet_answer(names)),
    ]


def _batches(names: Sequence[str]) -> str:
    found = sorted({TIMES[name]["batch"] for name in names if name in TIMES})
    return f", in batches of {' or '.join(map(str, found))}" if found else ""


def _imagenet_answer(names: Sequence[str]) -> str:
    if not all(name in TIMES for name in names):
        return "Not timed yet."
    ratios = {n.rpartition("/")[2]: slower(n, "hybrid/imagenet/all-standard") for n in names}
    return (
        f"{sum(r < 1 for r in ratios.values())} of {len(names) - 1} layouts with Performers train faster than exact attention here; "
        f"all ReLU Performers take {ratios['all-relu-128']:.2f} of its step (reported: {89.4 / 136.3:.2f}), all softmax "
        f"{ratios['all-softmax-128']:.2f} ({105.3 / 136.3:.2f})."
    )
