"""linear-tests/*: what "Testing linear-attention Transformers" prints and claims."""

from __future__ import annotations

from vixformer.documents.base import Claim, Column, Document, Exhibit, Measure, Named
from vixformer.results.evidence import Says

COLUMNS = (Column("step_ms", "step ms", "ms_a_step"), Column("val_top1", "validation top-1", "val_top1"))
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
NETWORKS = "The document compares rows of two networks in two frameworks; here the Transformer is its Keras network with exact attention."
PRINTED = ("performer-softmax-16", "performer-relu-64", "performer-relu-128", "deterministic-relu", "deterministic-exp")
"""Performers that its tables have."""


def rows(data: str, *names: str) -> tuple[str, ...]:
    return tuple(f"linear-tests/{data}/{name}" for name in names)


def cost(data: str, text: str, one: tuple[str, ...], other: tuple[str, ...], says: Says = "below", note: str = "") -> Claim:
    measure: Measure = "step"
    return Claim(f"on {SETS[data]} {text}", "section 4", rows(data, *one), rows(data, *other), says, measure, column="step_ms", note=note)


def of_set(data: str) -> tuple[Claim, ...]:
    name = SETS[data]
    small = data == "mnist"
    return (
        Claim(
            f"on {name} Performers are as accurate as the Transformer",
            "section 4",
            rows(data, *PRINTED),
            rows(data, "keras-transformer"),
            "not below",
            printed=98.99 - 98.33 if small else 70.64 - 72.70,
            note=NETWORKS + ("" if small else " Its own table has all Performers below the Transformer."),
        ),
        Claim(
            f"on {name} Linformer is as accurate as the Transformer",
            "section 4",
            rows(data, "linformer"),
            rows(data, "transformer"),
            "not below",
            note="" if small else "Its own table has Linformer 9 points below.",
        ),
        Claim(
            f"on {name} Performers with deterministic features are as accurate as with random ones",
            "section 4",
            rows(data, "deterministic-relu"),
            rows(data, "performer-relu-64"),
            "not below",
        ),
        Claim(
            f"on {name} Linformer from a checkpoint is as accurate as from scratch",
            "section 4",
            rows(data, "linformer-from-checkpoint"),
            rows(data, "linformer"),
            "not below",
            note="" if small else "Its own table has it 0.85 points below.",
        ),
        Claim(
            f"on {name} the softmax Performer from a checkpoint is as accurate as from scratch",
            "section 4",
            rows(data, "performer-softmax-16-from-checkpoint"),
            rows(data, "performer-softmax-16"),
            "not below",
        ),
        Claim(
            f"on {name} 128 softmax features beat 16",
            "section 4",
            rows(data, "performer-softmax-128"),
            rows(data, "performer-softmax-16"),
            note="It prints 16 features alone.",
        ),
        Claim(
            f"on {name} 16 ReLU features beat 128",
            "section 4",
            rows(data, "performer-relu-16"),
            rows(data, "performer-relu-128"),
            note="It prints 64 and 128 features alone.",
        ),
        cost(data, "Linformer takes less time a step than the Transformer", ("linformer",), ("transformer",)),
        cost(
            data,
            "Performers take less time a step than the Transformer",
            PRINTED,
            ("keras-transformer",),
            note=NETWORKS + (" Its own table has every Performer slower." if small else ""),
        ),
        cost(
            data,
            "the softmax Performer takes less time a step than the ReLU one",
            ("performer-softmax-16",),
            ("performer-relu-16",),
            note="Its table has 16 softmax features beside 64 ReLU features; here both have 16.",
        ),
        cost(data, "without random features a step takes longer", ("deterministic-relu",), ("performer-relu-64",), "above"),
    )


CLAIMS = (
    *of_set("mnist"),
    *of_set("cifar10"),
    Claim(
        "on CIFAR-10 a Performer behind a ResNet beats the ResNet alone",
        "section 6",
        rows("cifar10", "resnet-performer"),
        rows("cifar10", "resnet"),
        note="It prints no figure.",
    ),
)


def table(number: int, data: str) -> Exhibit:
    names = ("transformer", "linformer", "linformer-from-checkpoint", "keras-transformer", *PRINTED, "performer-softmax-16-from-checkpoint")
    about = f"{SETS[data]}: time a step and validation accuracy (its section 4, without a number there)"
    return Exhibit("table", number, about, rows(data, *names), COLUMNS, base=rows(data, "transformer")[0])


EXHIBITS = (
    table(1, "mnist"),
    table(2, "cifar10"),
    Exhibit(
        "figure", 1, "Patches of an image of each set", rows("mnist", "transformer") + rows("cifar10", "transformer"), draws=("patches",)
    ),
    Exhibit(
        "figure",
        2,
        "Training loss of the Transformer and Linformer (its appendix)",
        (*rows("mnist", "transformer", "linformer"), *rows("cifar10", "linformer")),
        draws=("curves",),
    ),
)

NAMES = (
    Named("Transformer in torch", "section 3.2", ("recipe linear-tests/mnist/transformer",)),
    Named(
        "Linformer in torch", "section 3.2", ("recipe linear-tests/mnist/linformer", "word linformer(rank=4)"), "Its rank is not printed"
    ),
    Named("Keras network with exact attention", "section 3.3", ("recipe linear-tests/mnist/keras-transformer",)),
    Named("Performer with softmax features, 16 to 128", "section 3.3", ("recipe linear-tests/mnist/performer-softmax-*",)),
    Named("Performer with ReLU features, 16 to 128", "section 3.3", ("recipe linear-tests/mnist/performer-relu-*",)),
    Named(
        "deterministic kernels",
        "section 3.3",
        ("recipe linear-tests/mnist/deterministic-relu", "recipe linear-tests/mnist/deterministic-exp"),
    ),
    Named("deterministic causal masks", "section 3.3", ("recipe linear-tests/mnist/deterministic-relu-causal", "option train.epochs")),
    Named("from a checkpoint", "section 4", ("recipe linear-tests/mnist/linformer-from-checkpoint", "command vix convert")),
    Named(
        "trigonometric, hyperbolic, Gaussian and angular kernels",
        "sections 1.3.2 to 2.2",
        (
            "word performer(kernel=trig)",
            "word performer(kernel=cosh)",
            "word performer(kernel=gaussian)",
            "word performer(kernel=angular)",
        ),
    ),
    Named("orthogonal beside independent random features", "section 2.3", ("word performer(scaling=chi)", "word performer(scaling=iid)")),
    Named("causal attention by prefix sums", "section 2.1", ("word performer(causal=true)",)),
    Named("MNIST, CIFAR-10, CIFAR-100", "section 3.1", ("data mnist", "data cifar10", "data cifar100"), "It prints no result on CIFAR-100"),
    Named("images at 72 x 72", "section 3.2", ("option data.resize",)),
    Named("patches drawn", "section 3.2.1", ("figure patches",)),
    Named("printouts of both networks", "sections 3.2.3 and 3.3", ("command vix show",)),
    Named("tables of section 4", "section 4", ("page linear-tests.md",)),
    Named("time a step, training and inference speed", "section 4", ("command vix bench",)),
    Named(
        "ResNet in front of a Performer, and alone",
        "section 6",
        ("recipe linear-tests/cifar10/resnet-performer", "recipe linear-tests/cifar10/resnet"),
    ),
    Named("local windows of Linformer", "section 1.2", (), "Linformer has no window: the document describes another mechanism there"),
    Named("a second framework", "section 5", (), "Everything here is torch; the Keras network is built in torch"),
    Named("video and action recognition", "section 6, outlook", (), "Images alone"),
    Named("hyperparameter search", "section 6, outlook", ("command vix search",)),
)

DOCUMENT = Document(
    name="linear-tests",
    title="Testing linear-attention Transformers",
    year=2023,
    top1="val_top1",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    names=NAMES,
)
