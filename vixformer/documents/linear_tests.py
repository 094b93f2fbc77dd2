"""linear-tests/*: what "Testing linear-attention Transformers" prints and claims."""

from __future__ import annotations

from typing import Any

from vixformer.documents.claims import Claim, Column, Document, Exhibit, Measure, Named, named
from vixformer.results.evidence import Says

COLUMNS = (Column("step_ms", "step ms", "ms_a_step"), Column("val_top1", "validation top-1", "val_top1"))
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
NETWORKS = "The document compares rows of two networks in two frameworks; here the Transformer is its Keras network with exact attention."
TWICE = "Rows from a checkpoint have also had the epochs of that checkpoint."
PRINTED = ("performer-softmax-16", "performer-relu-64", "performer-relu-128", "deterministic-relu", "deterministic-exp")
"""Performers that its tables have."""


def rows(data: str, *names: str) -> tuple[str, ...]:
    return tuple(f"linear-tests/{data}/{name}" for name in names)


def cost(data: str, text: str, one: tuple[str, ...], other: tuple[str, ...], says: Says = "below", **more: Any) -> Claim:
    measure: Measure = "step"
    return Claim(f"on {SETS[data]} {text}", "section 4", rows(data, *one), rows(data, *other), says, measure, column="step_ms", **more)


def of_set(data: str) -> tuple[Claim, ...]:
    name = SETS[data]
    small = data == "mnist"
    linformer, performer = "linformer-from-checkpoint", "performer-softmax-16-from-checkpoint"
    return (
        Claim(
            f"on {name} Performers are as accurate as the Transformer",
            "section 4",
            rows(data, *PRINTED),
            rows(data, "keras-transformer"),
            "not below",
            printed=99.05 - 98.33 if small else 70.636 - 72.70,
            note=NETWORKS + ("" if small else " Its own table has every Performer below the Transformer."),
        ),
        Claim(
            f"on {name} Linformer is as accurate as the Transformer",
            "section 4",
            rows(data, "linformer"),
            rows(data, "transformer"),
            "not below",
            note="" if small else "Its own table has Linformer 8.95 points below.",
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
            rows(data, linformer),
            rows(data, "linformer"),
            "not below",
            note=TWICE + ("" if small else " Its own table has it 0.85 points below."),
        ),
        Claim(
            f"on {name} the softmax Performer from a checkpoint is as accurate as from scratch",
            "section 4",
            rows(data, performer),
            rows(data, "performer-softmax-16"),
            "not below",
            note=TWICE,
        ),
        *(
            Claim(
                f"on {name} {model} from a checkpoint is as accurate as from scratch, with equal epochs in all",
                "section 4",
                rows(data, row),
                rows(data, *(row.replace("-from-checkpoint", end) for end in ("", "-equal-epochs"))),
                "not below",
                epochs="all",
                note="Our control: the document gives rows from a checkpoint more epochs in all.",
            )
            for model, row in (("Linformer", linformer), ("the softmax Performer", performer))
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
        Claim(
            f"on {name} orthogonal features beat independent ones",
            "section 2.3",
            rows(data, "performer-softmax-16"),
            rows(data, "performer-softmax-16-independent"),
            note="It says so of the error of the attention matrix and prints no figure; this is the accuracy of the trained models.",
        ),
        cost(data, "Linformer takes less time a step than the Transformer", ("linformer",), ("transformer",)),
        cost(
            data,
            "Performers take less time a step than the Transformer",
            PRINTED,
            ("keras-transformer",),
            printed=558 / 333 if small else 252 / 296,
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
    *named(
        "system",
        Named("Transformer in torch", "section 3.2", ("recipe linear-tests/mnist/transformer", "recipe linear-tests/cifar10/transformer")),
        Named(
            "Linformer in torch",
            "section 3.2",
            ("recipe linear-tests/mnist/linformer", "word linformer(rank=4)"),
            "Its rank is not printed: a quarter of the places",
        ),
        Named(
            "local windows of Linformer",
            "sections 1.2 and 2",
            ("word performer(local_heads=2, window=64)",),
            "Linformer has none: it projects keys and values. Heads that attend in a window are an option of the Performer",
        ),
        Named("Keras network with exact attention", "section 3.3", ("recipe linear-tests/mnist/keras-transformer",)),
        Named("Performer with softmax features, 16 to 128", "section 3.3", ("recipe linear-tests/mnist/performer-softmax-*",)),
        Named("Performer with ReLU features, 16 to 128", "section 3.3", ("recipe linear-tests/mnist/performer-relu-*",)),
        Named(
            "deterministic ReLU and exp (Determine-RELU, Determine-Softmax)",
            "section 3.3",
            ("recipe linear-tests/mnist/deterministic-relu", "recipe linear-tests/mnist/deterministic-exp"),
            "Determine-Softmax is read as the exponential of q and k themselves",
        ),
        Named("deterministic causal masks", "section 3.3", ("recipe linear-tests/mnist/deterministic-*-causal",)),
        Named("causal attention by prefix sums", "section 2.1", ("word performer(causal=true)",)),
        Named("positive softmax features (FAVOR+), hyperbolic cosine", "section 1.3.2", ("word performer", "word performer(kernel=cosh)")),
        Named("trigonometric features", "section 1.3.2", ("word performer(kernel=trig)",)),
        Named("Gaussian and angular kernels", "section 2.2", ("word performer(kernel=gaussian)", "word performer(kernel=angular)")),
        Named(
            "orthogonal beside independent random features",
            "section 2.3",
            (
                "word performer(scaling=chi)",
                "word performer(scaling=iid)",
                "recipe linear-tests/mnist/performer-softmax-16-independent",
            ),
        ),
        Named("encoder and decoder of the Transformer", "section 1.1", (), "Background; image classification has the encoder alone"),
        Named("a second framework (TensorFlow)", "section 5", (), "Everything here is torch; the Keras network is built in torch"),
    ),
    *named(
        "data",
        Named("MNIST and CIFAR-10", "section 3.1", ("data mnist", "data cifar10")),
        Named("CIFAR-100", "description", ("data cifar100", "recipe linear-tests/cifar100/*"), "It prints no result on CIFAR-100"),
        Named(
            "CIFAR-10 at 72 x 72", "section 3.2", ("option data.resize",), "In torch alone: its Keras printout has 25 patches of 32 x 32"
        ),
        Named("normalization by 0.5", "section 3.2.1", ("option data.mean", "option data.std")),
        Named(
            "`sequential` in front of the patches, with 7 parameters (Keras)",
            "section 3.3",
            ("option data.mean", "option data.std"),
            "Three means, three variances and a counter: a normalization. Whether it also flips, turns or zooms images is not printed: "
            "here it does not",
        ),
        Named("shuffled batches", "section 3.2.1", ("option train.seed",)),
        Named("validation accuracy", "section 4", ("option data.val_fraction",), "A part of the training images; it does not say which"),
    ),
    *named(
        "setting",
        Named("patches of 7 and 6", "section 3.2.1", ("option vit.patch_size",)),
        Named(
            "6 and 8 blocks, 8 heads, width 256 (torch)",
            "section 3.2.1",
            ("option vit.depth", "option vit.num_heads", "option vit.embed_dim"),
        ),
        Named(
            "6 and 8 layers, 4 heads of width 128, width 64 (Keras)",
            "section 3.3",
            ("option vit.depth", "option vit.num_heads", "option vit.head_dim"),
            "It prints 4, 6 and 8 layers and 4 and 8 heads for both sets: here 6 and 8 layers and 4 heads, as in its printout",
        ),
        Named("GELU, dropout 0.2, LayerNorm 1e-5", "section 3.2.3", ("option vit.act", "option vit.drop_rate", "option vit.norm_eps")),
        Named("a head of 2048 and 1024 hidden units on flattened tokens", "section 3.3", ("option vit.head", "option vit.pool")),
        Named(
            "dropout on the flattened vector and in the head",
            "section 3.3",
            ("option vit.pool_drop_rate", "option vit.head_drop_rate"),
            "Its rates are not printed: 0.5, and 0.1 in the layers",
        ),
        Named("learned positions", "section 3.2.1", ("option vit.pos",)),
        Named(
            "Adam, cross-entropy",
            "section 3.2.1",
            ("option train.optimizer", "option train.loss"),
            "Its torch learning rate is not printed: 3e-4",
        ),
        Named("learning rate 0.001, weight decay 0.0001", "section 3.3", ("option train.lr", "option train.weight_decay")),
        Named(
            "batches of 32 and 128, 20 and 100 epochs",
            "sections 3.2 and 3.3",
            ("option train.batch_size", "option train.epochs"),
            "It prints two of each for Keras: here its second, batches of 128 (MNIST) and 32 (CIFAR-10) and 20 epochs",
        ),
    ),
    *named(
        "measure",
        Named("validation accuracy and time a step", "section 4", ("page linear-tests.md", "command vix reproduce")),
        Named("training and inference speed", "section 4", ("command vix bench", "tool runs")),
        Named("training loss by epoch", "section 7", ("figure curves",)),
        Named("parameters of each layer", "sections 3.2.3 and 3.3", ("command vix show",)),
        Named("error of the estimated attention matrix", "section 2.3", ("page ../mechanisms.md",), "It prints no figure"),
    ),
    *named(
        "exhibit",
        Named("figure 2, Linformer's diagram from its paper", "section 1.2", ("page ../mechanisms.md",), "A diagram: here formulas"),
        Named("printouts of both networks", "sections 3.2.3 and 3.3", ("command vix show",)),
        Named("patches of images of both sets", "section 3.2.1", ("figure patches",)),
    ),
    *named(
        "experiment",
        Named("from scratch", "section 4", ("recipe linear-tests/mnist/linformer",)),
        Named(
            "from a checkpoint of the Transformer",
            "section 4",
            ("recipe linear-tests/mnist/*-from-checkpoint", "command vix convert"),
            "Our control with equal epochs in all: `linear-tests/*-equal-epochs`",
        ),
        Named("ablation over 16 to 128 features", "section 4", ("recipe linear-tests/cifar10/performer-*", "figure features")),
        Named(
            "ResNet in front of a Performer, and alone",
            "section 6",
            ("recipe linear-tests/cifar10/resnet-performer", "recipe linear-tests/cifar10/resnet"),
            "It prints no figure and no settings",
        ),
    ),
    *named(
        "outlook",
        Named("hyperparameter search", "section 4", ("command vix search",)),
        Named("other model sizes and attention configurations", "section 4", ("option vit.embed_dim", "command vix search")),
        Named(
            "other kernel approximations", "section 4", ("word performer(kernel=elu)", "word performer(kernel=prototypes)", "word hedgehog")
        ),
        Named("other image sets", "section 4", ("data folder", "data fashion-mnist", "data tiny-imagenet")),
        Named("video and action recognition", "section 6", (), "Images alone"),
        Named("convolutional features in front of attention", "section 6", ("option vit.stem", "recipe xformers/cifar10/hybrid-*")),
    ),
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
