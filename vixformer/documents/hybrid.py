"""hybrid/*: what "Hybrid Transformer Models with Performer and Regular Attention" prints and claims."""

from __future__ import annotations

from vixformer.documents.claims import Claim, Column, Document, Exhibit, Measure, Named, named
from vixformer.results.evidence import Says

COLUMNS = (
    Column("test_top1", "test top-1", "test_max_top1"),
    Column("train_top1", "train top-1", "train_top1"),
    Column("seconds_an_epoch", "seconds an epoch", "seconds_an_epoch"),
    Column("inference_ms", "inference ms", "inference_ms"),
)
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
MEANS = (
    'Its text says that Performers first are best "on average"; the means of its own table are alternating 73.06, everywhere 72.98, '
    "exact 72.96, first 72.87, last 72.69."
)
LAYOUTS = ("all", "alternate", "first", "last")
HYBRIDS = ("alternate", "first", "last")


def rows(data: str, layouts: tuple[str, ...], kernel: str = "*", features: str = "*") -> tuple[str, ...]:
    """Without 8 features, which its tables leave out."""
    if features != "*":
        return tuple(f"hybrid/{data}/{layout}-{kernel}-{features}" for layout in layouts)
    return tuple(f"hybrid/{data}/{layout}-{kernel}-{m}" for layout in layouts for m in ("16", "32", "64", "128", "256", "512"))


def exact(data: str) -> tuple[str, ...]:
    return (f"hybrid/{data}/all-standard",)


def cost(
    text: str, where: str, one: tuple[str, ...], other: tuple[str, ...], measure: Measure, says: Says = "below", note: str = ""
) -> Claim:
    return Claim(
        text,
        where,
        one,
        other,
        says,
        measure,
        column={"step": "seconds_an_epoch", "inference": "inference_ms"}[measure],
        note=note,
    )


def of_set(data: str) -> tuple[Claim, ...]:
    name = SETS[data]
    return (
        Claim(f"on {name} hybrids match exact attention", "section 6.1", rows(data, HYBRIDS), exact(data), "not below"),
        Claim(
            f"on {name} Performers everywhere match exact attention",
            "section 6.1",
            rows(data, ("all",)),
            exact(data),
            "not below",
        ),
        Claim(
            f"on {name} Performers first beat Performers last",
            "section 6.2",
            rows(data, ("first",)),
            rows(data, ("last",)),
        ),
        Claim(
            f"on {name} Performers first beat alternating ones",
            "section 6.2",
            rows(data, ("first",)),
            rows(data, ("alternate",)),
            note="" if data == "mnist" else MEANS,
        ),
        Claim(
            f"on {name} alternating layers beat Performers last",
            "section 6.2",
            rows(data, ("alternate",)),
            rows(data, ("last",)),
        ),
        Claim(
            f"on {name} with Performers last ReLU beats softmax",
            "section 6.3",
            rows(data, ("last",), "relu"),
            rows(data, ("last",), "softmax"),
        ),
        Claim(
            f"on {name} with alternating layers the kernel does not matter",
            "section 6.3",
            rows(data, ("alternate",), "relu"),
            rows(data, ("alternate",), "softmax"),
            "equal",
            note="" if data == "mnist" else "Its own table has ReLU 0.76 points behind with 512 features.",
        ),
        Claim(
            f"on {name} hybrids are behind exact attention in the first epochs",
            "section 6.5",
            rows(data, LAYOUTS, "softmax", "128"),
            exact(data),
            "below",
            "first epochs",
        ),
        cost(
            f"on {name} softmax features train slower than ReLU",
            "section 6.6",
            rows(data, LAYOUTS, "softmax"),
            rows(data, LAYOUTS, "relu"),
            "step",
            "above",
        ),
        cost(
            f"on {name} softmax features infer slower than ReLU",
            "section 6.6",
            rows(data, LAYOUTS, "softmax"),
            rows(data, LAYOUTS, "relu"),
            "inference",
            "above",
        ),
        cost(
            f"on {name} 256 features train slower than 16",
            "section 6.6",
            rows(data, LAYOUTS, features="256"),
            rows(data, LAYOUTS, features="16"),
            "step",
            "above",
        ),
    )


CLAIMS = (
    *of_set("mnist"),
    *of_set("cifar10"),
    Claim(
        "on MNIST 256 features are no better than 16",
        "section 6.4",
        rows("mnist", LAYOUTS, features="256"),
        rows("mnist", LAYOUTS, features="16"),
        "equal",
    ),
    Claim(
        "on CIFAR-10 64 features beat 16",
        "section 6.4",
        rows("cifar10", LAYOUTS, features="64"),
        rows("cifar10", LAYOUTS, features="16"),
    ),
    Claim(
        "on CIFAR-10 512 features are no better than 64",
        "section 6.4",
        rows("cifar10", LAYOUTS, features="512"),
        rows("cifar10", LAYOUTS, features="64"),
        "equal",
        note="Its text has most rows within 0.5 points of their best from 64 features on; in its own table none of the eight is.",
    ),
    Claim(
        "on CIFAR-10 with Performers first softmax beats ReLU",
        "section 6.3",
        rows("cifar10", ("first",), "softmax"),
        rows("cifar10", ("first",), "relu"),
        note="The document says for every number of features; its own table has ReLU ahead with 32 and 512.",
    ),
    Claim(
        "on CIFAR-10 with few features and Performers everywhere ReLU beats softmax",
        "section 6.3",
        rows("cifar10", ("all",), "relu", "16"),
        rows("cifar10", ("all",), "softmax", "16"),
    ),
    Claim(
        "on CIFAR-10 hybrids reach less training accuracy than exact attention",
        "section 6.5",
        rows("cifar10", LAYOUTS, "softmax", "128"),
        exact("cifar10"),
        "below",
        "train top-1",
        column="train_top1",
        note="With softmax features, as in its figure 5. With ReLU its own table has hybrids as high as exact attention.",
    ),
    Claim(
        "on CIFAR-10 Performers everywhere are behind hybrids in the first epochs",
        "section 6.5",
        rows("cifar10", ("all",), "softmax", "128"),
        rows("cifar10", HYBRIDS, "softmax", "128"),
        "below",
        "first epochs",
    ),
    cost(
        "on MNIST exact attention trains fastest",
        "section 6.7",
        rows("mnist", LAYOUTS),
        exact("mnist"),
        "step",
        "above",
    ),
    cost(
        "on MNIST exact attention infers fastest",
        "section 6.7",
        rows("mnist", LAYOUTS),
        exact("mnist"),
        "inference",
        "above",
    ),
    cost(
        "on CIFAR-10 alternating layers with 16 ReLU features train faster than exact attention",
        "section 6.7",
        rows("cifar10", ("alternate",), "relu", "16"),
        exact("cifar10"),
        "step",
        note="Its text says so of ReLU alone; its own table has softmax with 16 and 32 features faster too.",
    ),
    cost(
        "at 785 tokens every hybrid trains faster than exact attention",
        "section 7",
        rows("imagenet", HYBRIDS, features="128"),
        exact("imagenet"),
        "step",
    ),
    cost(
        "at 785 tokens every hybrid infers faster than exact attention",
        "section 7",
        rows("imagenet", HYBRIDS, features="128"),
        exact("imagenet"),
        "inference",
    ),
    cost(
        "at 785 tokens Performers everywhere train faster than exact attention",
        "section 7",
        rows("imagenet", ("all",), features="128"),
        exact("imagenet"),
        "step",
    ),
    cost(
        "at 785 tokens Performers everywhere infer faster than exact attention",
        "section 7",
        rows("imagenet", ("all",), features="128"),
        exact("imagenet"),
        "inference",
    ),
    cost(
        "at 785 tokens ReLU Performers train faster than softmax ones",
        "section 7",
        rows("imagenet", LAYOUTS, "relu", "128"),
        rows("imagenet", LAYOUTS, "softmax", "128"),
        "step",
    ),
)


def figure(number: int, about: str, draws: tuple[str, ...], patterns: tuple[str, ...] = ("hybrid/mnist/*", "hybrid/cifar10/*")) -> Exhibit:
    return Exhibit("figure", number, about, patterns, draws=draws)


EXHIBITS = (
    Exhibit(
        "table",
        1,
        "MNIST: five layouts, two kernels, 16 to 256 features",
        rows("mnist", LAYOUTS) + exact("mnist"),
        COLUMNS,
        exact("mnist")[0],
    ),
    Exhibit(
        "table",
        2,
        "CIFAR-10: five layouts, two kernels, 16 to 512 features",
        rows("cifar10", LAYOUTS) + exact("cifar10"),
        COLUMNS,
        exact("cifar10")[0],
    ),
    Exhibit("table", 3, "noise of ImageNet's size: time alone", ("hybrid/imagenet/*",), COLUMNS[2:], exact("imagenet")[0]),
    figure(1, "Worst, mean and best accuracy of each layout", ("layouts",)),
    figure(2, "Best accuracy of each layout", ("best-layouts",)),
    figure(3, "ReLU beside softmax features", ("kernels",)),
    figure(4, "Accuracy against the number of features", ("features",)),
    figure(
        5,
        "Learning curves with 128 softmax features",
        ("curves",),
        tuple(f"hybrid/{data}/{row}" for data in SETS for row in ("all-standard", *(f"{layout}-softmax-128" for layout in LAYOUTS))),
    ),
    figure(6, "Training time against the number of features", ("times",)),
    figure(7, "Inference time against the number of features, with a band of one standard deviation", ("times",)),
)

NAMES = (
    *named(
        "system",
        Named("Vision Transformer", "section 3.2", ("model vit",)),
        Named("exact attention everywhere (AllStandard)", "section 4.3.3", ("word softmax", "recipe hybrid/mnist/all-standard")),
        Named("Performers everywhere (AllPerformer)", "section 4.3.3", ("word performer", "recipe hybrid/mnist/all-*")),
        Named("alternating layers (Intertwined)", "section 4.3.3", ("word performer + softmax", "recipe hybrid/mnist/alternate-*")),
        Named("Performers first (PerformerFirst)", "section 4.3.3", ("word first(performer)", "recipe hybrid/mnist/first-*")),
        Named("Performers last (StandardFirst)", "section 4.3.3", ("word last(performer)", "recipe hybrid/mnist/last-*")),
        Named("ReLU kernel", "section 1", ("word performer(kernel=relu)",)),
        Named("softmax kernel by positive random features (FAVOR+)", "section 3.3", ("word performer",)),
        Named("trigonometric features", "section 3.3", ("word performer(kernel=trig)",)),
    ),
    *named(
        "data",
        Named("MNIST and CIFAR-10", "section 4.1", ("data mnist", "data cifar10")),
        Named("noise of ImageNet's size, 1,000 classes", "section 7", ("data synthetic", "recipe hybrid/imagenet/all-standard")),
        Named(
            "rotation by up to 5 degrees",
            "section 4.2",
            ("option data.rotate", "option data.interpolation"),
            "Its code turned test images too; here they are left as they are, as its text says",
        ),
        Named("horizontal flips on CIFAR-10 alone", "section 4.2", ("option data.flip",)),
        Named("normalization", "section 4.2", ("option data.mean", "option data.std")),
        Named(
            "no validation images",
            "section 4.4.1",
            ("option data.val_fraction", "recipe hybrid-as-printed/mnist/*"),
            "`hybrid/*` choose the epoch on a tenth of the training images; `hybrid-as-printed/*` train on all",
        ),
    ),
    *named(
        "setting",
        Named("patches of 4, a convolution", "section 4.3.1", ("option vit.patch_size", "option vit.stem")),
        Named("width 64", "section 4.3.1", ("option vit.embed_dim",)),
        Named("depth, heads, MLP ratio", "section 4.3.2", ("option vit.depth", "option vit.num_heads", "option vit.mlp_ratio")),
        Named("class token, learned positions", "section 4.3.1", ("option vit.pool", "option vit.pos", "option vit.pos_std")),
        Named("norm before each layer, GELU", "section 4.3.2", ("option vit.norm_place", "option vit.act", "option vit.norm_eps")),
        Named("8 to 512 features", "sections 5 and 6", ("word performer(features=8)", "recipe hybrid/cifar10/all-relu-512")),
        Named("features drawn once", "public code", ("option train.redraw_every",)),
        Named("AdamW, cross-entropy", "section 4.4.1", ("option train.optimizer", "option train.loss")),
        Named(
            "batch size, learning rate, weight decay, epochs",
            "section 4.4.1",
            ("option train.batch_size", "option train.lr", "option train.weight_decay", "option train.epochs"),
            "Its text has no numbers: they are those of its public configuration",
        ),
        Named("seeds of Python, NumPy and torch", "section 5", ("option train.seed",)),
        Named("deterministic algorithms", "section 5", ("page ../training.md",), "On the CPU a rerun is equal bit by bit"),
        Named(
            "T4 GPU and Apple M3 (MPS)",
            "sections 6.6 and 7",
            ("command vix bench",),
            "Two CPU cores here; `--device` is written and was not run on these",
        ),
    ),
    *named(
        "measure",
        Named(
            "best test accuracy over epochs",
            "section 4.4.1",
            ("option train.track_test", "page hybrid.md"),
            "In columns of its own; verdicts rest on the epoch chosen on validation",
        ),
        Named("training accuracy and loss, test loss an epoch", "section 4.4.1", ("figure curves",)),
        Named("seconds an epoch", "section 6", ("tool runs", "figure times")),
        Named("time per batch with standard deviation", "section 4.4.2", ("command vix bench", "figure times")),
        Named("synchronization of the device before and after timing", "section 4.4.2", ("command vix bench",)),
        Named("worst, mean and best of a layout", "section 6.1", ("figure layouts",)),
    ),
    *named(
        "experiment",
        Named("one experiment by its flags", "section 5", ("command vix train",)),
        Named("the full grid", "section 5", ("command vix compare", "recipe hybrid/mnist/*")),
        Named("tables and figures from saved logs", "section 5", ("command vix reproduce", "command vix report")),
        *(
            Named(question, f"section 6.{number}", ("page hybrid.md",))
            for number, question in enumerate(
                (
                    "do hybrids match exact attention?",
                    "which layout is most effective?",
                    "how sensitive are hybrids to the kernel?",
                    "how does accuracy depend on the number of features?",
                    "do hybrids learn differently?",
                    "are hybrids faster on small images?",
                    "are Performers faster at the length of ImageNet?",
                ),
                1,
            )
        ),
    ),
    *named(
        "outlook",
        Named("full ImageNet, fine-grained classes", "section 8", ("data folder",), "Any folder of images; ImageNet itself was not run"),
        Named("detection and segmentation", "section 8", (), "Classification alone"),
        Named("sweep over patch size and resolution", "section 8", ("command vix bench", "command vix advise")),
        Named("patches of 16 on noise of ImageNet's size", "public code", ("recipe hybrid/imagenet16/*",)),
        Named(
            "features and kernel a layer",
            "section 8",
            ("word performer(features=16)*2 + performer(kernel=relu, features=64)*2", "command vix search"),
        ),
        Named(
            "adaptive or learned number of features",
            "section 8",
            ("recipe hybrid-gated/*", "word performer(kernel=relu, gate=0.1)"),
            "A gate a feature with a price",
        ),
        Named("fused kernels", "section 8", ("page ../speed.md",)),
        Named("baselines like FlashAttention", "section 8", ("word softmax", "page ../speed.md"), "Torch's fused attention, or ours"),
    ),
)

DOCUMENT = Document(
    name="hybrid",
    title="Hybrid Transformer Models with Performer and Regular Attention",
    year=2025,
    top1="test_top1",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    names=NAMES,
    tables=3,
    figures=7,
)
