"""What the lab trains, and why. `python -m tools.lab plan` puts it in order."""

from __future__ import annotations

from tools.lab.jobs import Experiment
from vixformer.data.dataset import data_root
from vixformer.recipes.atlas import ATTENTIONS, BUDGETS, DATA

LAYOUTS = ("all", "alternate", "first", "last")
BOTH = ("relu", "softmax")
SETS = ("mnist", "cifar10")
VITS = ("vit", "vip", "vil", "vin")
MIXERS = ("fnet", "mixer")
STAGED = (
    "levit",
    "levip",
    "levil",
    "levin",
    "cct",
    "ccp",
    "ccl",
    "ccn",
    "cvt",
    "cvp",
    "cvl",
    "cvn",
    "pit",
    "pin",
    "pip",
)
SMALL = {"data.resize": 16, "train.batch_size": 64}
"""256 tokens a CIFAR-10 image, where the document has one a pixel; one batch for all rows."""


def hybrid(data: str, layouts: tuple[str, ...], kernels: tuple[str, ...], features: tuple[int, ...]) -> tuple[str, ...]:
    rows = tuple(f"hybrid/{data}/{layout}-{kernel}-{m}" for layout in layouts for kernel in kernels for m in features)
    return (f"hybrid/{data}/all-standard", *rows)


def linear(data: str, *names: str) -> tuple[str, ...]:
    return tuple(f"linear-tests/{data}/{name}" for name in names)


def xformers(data: str, *names: str) -> tuple[str, ...]:
    return tuple(f"xformers/{data}/{name}" for name in names)


def of(rows: tuple[str, ...], before: str = "", after: str = "") -> tuple[str, ...]:
    return tuple(f"{before}{row}{after}" for row in rows)


HYBRID = (
    *(Experiment(f"hybrid-{data}", hybrid(data, LAYOUTS, BOTH, (16, 64)), epochs=10, seeds=3) for data in SETS),
    Experiment(
        "hybrid-features", hybrid("cifar10", ("all", "first"), BOTH, (8, 16, 32, 64, 128, 256, 512)), epochs=10, seeds=3
    ),
    Experiment("hybrid-curves", hybrid("cifar10", LAYOUTS, ("softmax",), (128,)), epochs=10, seeds=3),
    *(  # figure 5, as long as the document trained
        Experiment(f"hybrid-{data}-whole", hybrid(data, LAYOUTS, ("softmax",), (128,)), epochs=50, seeds=1, worth=5)
        for data in SETS
    ),
)
FAST = (
    Experiment("fast-cifar10", ("fast-attention/exp1/*",), epochs=8, seeds=3, fraction=0.25),
    Experiment("fast-features", ("fast-attention/exp[23]/*",), epochs=8, seeds=3, fraction=0.25),
    Experiment("fast-tiny", ("fast-attention/exp[58]/*",), epochs=5, seeds=3, fraction=0.5),
    Experiment("fast-tiny-features", ("fast-attention/exp6/*",), epochs=5, seeds=3, fraction=0.5),
)
KERNELS = (  # in bfloat16, which is to these processors what the document's float16 is to its own
    Experiment(
        "kernels-grid",
        ("cifar-kernels-grid/*",),
        epochs=6,
        seeds=5,
        fraction=0.5,
        changes={"data.resize": 16, "train.precision": "bfloat16"},
    ),
    Experiment(
        "kernels-printed",
        tuple(
            f"cifar-kernels/{name}" for name in ("vit", "relu", "elu-?", "gelu-?", "exp", "ftheta", "ftheta-mixture")
        ),
        epochs=5,
        seeds=2,
        fraction=0.25,
        changes={"train.precision": "bfloat16"},
    ),
)
ONE_NETWORK = (
    "keras-transformer",
    "keras-linformer",
    "performer-*-16",
    "performer-*-32",
    "performer-*-64",
    "performer-*-128",
)
LINEAR = (
    *(
        Experiment(
            f"linear-{data}",
            linear(data, *ONE_NETWORK, "deterministic-*", "*-independent", "performer-*-from-checkpoint"),
            epochs=5,
            seeds=3,
            fraction=0.5,
        )
        for data in SETS
    ),
    *(
        Experiment(
            f"linear-{data}-longer", linear(data, "performer-*-equal-epochs"), epochs=10, seeds=3, fraction=0.5, worth=2
        )
        for data in SETS
    ),
    Experiment(
        "linformer-mnist", linear("mnist", "transformer", "linformer", "linformer-from-checkpoint"), 5, 3, fraction=0.5
    ),
    Experiment("linformer-mnist-longer", linear("mnist", "linformer-equal-epochs"), 10, 3, fraction=0.5, worth=1),
    Experiment(
        "linformer-cifar10",
        linear("cifar10", "transformer", "linformer", "linformer-from-checkpoint"),
        5,
        3,
        fraction=0.5,
        changes={"data.resize": 36},
    ),
    Experiment(
        "linformer-cifar10-longer",
        linear("cifar10", "linformer-equal-epochs"),
        10,
        3,
        fraction=0.5,
        changes={"data.resize": 36},
        worth=1,
    ),
    Experiment("linear-cifar100", linear("cifar100", "keras-transformer", "performer-*-16", "deterministic-*"), 20, 3),
    Experiment("linear-resnet", linear("cifar10", "resnet", "resnet-performer"), 5, 3, fraction=0.5),
)
XFORMERS = (
    *(
        Experiment(
            f"xformers-{name}", xformers("cifar10", *rows), epochs=6, seeds=3, fraction=0.2, changes=SMALL, worth=worth
        )
        for name, (worth, *rows) in {
            "table-1": (0, *VITS, *MIXERS, *of((*VITS, *MIXERS), "hybrid-")),
            "stages": (0, *STAGED, *of(("pit", "pin", "pip"), "hybrid-")),
            "rope": (
                9,
                *of(VITS, after="-rope"),
                *of(VITS, "hybrid-", "-rope"),
                *of(("levit", "cct", "cvt", "pit"), after="-rope"),
            ),
        }.items()
    ),
    Experiment(
        "xformers-tiny",
        xformers("tiny-imagenet", *VITS, *MIXERS, *of((*VITS, *MIXERS), "hybrid-"), *STAGED[:-3]),
        epochs=6,
        seeds=3,
        changes={"data.resize": 32, "train.batch_size": 64},
    ),
)
FLOWERS = {"data.root": str(data_root() / "flowers")}
PHOTOS = (
    Experiment("photos-400", ("photos/400/*",), epochs=20, seeds=3, changes=FLOWERS, tune=3, worth=6),
    Experiment("photos-1600", ("photos/1600/*",), epochs=10, seeds=3, changes=FLOWERS, worth=6),
)
LENS = (Experiment("lens-tuned", ("lens/cifar10/*",), epochs=5, seeds=5, tune=3, worth=8),)
CORE = (
    "exact",
    "exact-conv",
    "lens",
    "prism",
    "performer-relu",
    "hedgehog",
    "linformer",
    "nystrom",
    "first-performer",
    "first-lens",
)
MOST_EPOCHS = 10
"""Of a row of the atlas, which is not cut."""


def atlas(
    cell: str, names: tuple[str, ...] = CORE, converted: bool = False, worth: int = 0, tune: int = 0
) -> Experiment:
    """A cell of the grid, from scratch or with what is converted from its exact model."""
    rows = of(("exact", "exact-longer", "*-converted") if converted else names, f"atlas/{cell}/")
    changes = {"train.track_test": False, **(FLOWERS if cell.startswith("flowers") else {})}
    kind = "-converted" if converted else "-all" if names != CORE else "-tuned" if tune else ""
    return Experiment(f"atlas-{cell}{kind}", rows, MOST_EPOCHS, seeds=3, changes=changes, tune=tune, worth=worth)


FIRST_LAYER = (
    atlas("cifar10-256", worth=20),
    atlas("flowers-400", worth=14),
    atlas("cifar10-256", converted=True, worth=14),
    atlas("flowers-400", converted=True, worth=10),
)
"""About twelve hours of one core: the numbers of tokens and the starts that no other record has."""
SECOND_LAYER = (
    *(atlas(cell, worth=6) for cell in ("cifar10-1024", "flowers-1600", "fashion-mnist-64")),
    *(atlas(cell, worth=4) for cell in ("tiny-imagenet-400", "fashion-mnist-256", "cifar10-400")),
    *(atlas(cell, converted=True, worth=4) for cell in ("cifar10-64", "cifar10-1024", "fashion-mnist-256")),
    *(atlas(cell, worth=3, tune=3) for cell in ("cifar10-256", "flowers-400")),
)
CELLS = [f"{data}-{tokens}" for data in DATA for tokens in BUDGETS]
LAST_LAYER = (
    *(atlas(cell, tuple(ATTENTIONS), worth=1) for cell in CELLS),
    *(
        atlas(cell, converted=True, worth=1)
        for cell in CELLS
        if f"atlas-{cell}-converted" not in {experiment.name for experiment in (*FIRST_LAYER, *SECOND_LAYER)}
    ),
)
"""The rest of the grid."""
ABLATION = (
    Experiment(
        "ablation-cifar10", ("ablation/cifar10/*",), epochs=60, seeds=5, worth=4, changes={"train.track_test": False}
    ),
)

EXPERIMENTS = (
    *HYBRID,
    *FAST,
    *KERNELS,
    *LINEAR,
    *XFORMERS,
    *PHOTOS,
    *LENS,
    *ABLATION,
    *FIRST_LAYER,
    *SECOND_LAYER,
    *LAST_LAYER,
)
