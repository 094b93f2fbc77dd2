"""fast-attention/*: what "Exploring Fast Attention Mechanisms" prints and claims."""

from __future__ import annotations

from vixformer.documents.base import Claim, Column, Document, Exhibit, Named

EXACT, RELU, EXP, FTHETA = ("vit", "performer-relu", "performer-exp", "performer-ftheta")
CIFAR, TINY_4, TINY_8 = ("exp1", "exp2", "exp3", "exp4"), ("exp5", "exp6", "exp7"), ("exp8", "exp9")
COLUMNS = (
    Column("train_seconds", "seconds an epoch", "seconds_an_epoch"),
    Column("inference_seconds", "inference s", "inference_ms"),
    Column("max_top1", "max test top-1", "test_max_top1"),
    Column("final_top1", "last test top-1", "test_last_top1"),
    Column("resource", "memory, ViT = 100", "peak_train_mb"),
)


def rows(model: str, experiments: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"fast-attention/{experiment}/{model}" for experiment in experiments)


def results(number: int, experiment: str, about: str) -> Exhibit:
    return Exhibit(
        "table",
        number,
        about,
        (f"fast-attention/{experiment}/*",),
        COLUMNS,
        base=f"fast-attention/{experiment}/{EXACT}",
    )


def beats(one: str, other: str, experiments: tuple[str, ...], text: str, where: str) -> Claim:
    return Claim(text, where, rows(one, experiments), rows(other, experiments))


def cost(text: str, where: str, one: tuple[str, ...], other: tuple[str, ...], measure: str, says: str = "below") -> Claim:
    column = {"step": "train_seconds", "inference": "inference_seconds", "memory": "resource"}[measure]
    return Claim(text, where, one, other, says, measure, column=column)  # pyright: ignore[reportArgumentType]


EXHIBITS = (
    results(2, "exp1", "Experiment I: CIFAR-10, 16 features"),
    results(4, "exp2", "Experiment II: CIFAR-10, 64 features"),
    results(5, "exp3", "Experiment III: CIFAR-10, 32 features"),
    Exhibit(
        "table",
        6,
        "CIFAR-10 by number of features",
        (*(f"fast-attention/{e}/{m}" for m in (EXP, FTHETA, RELU) for e in ("exp1", "exp3", "exp2")), "fast-attention/exp1/vit"),
        COLUMNS,
        base="fast-attention/exp1/vit",
        draws=("features", "times"),
    ),
    results(8, "exp4", "Experiment IV: CIFAR-10, wider, 32 features"),
    results(10, "exp5", "Experiment V: Tiny ImageNet, patches of 4, 16 features"),
    results(11, "exp6", "Experiment VI: Tiny ImageNet, patches of 4, 32 features"),
    results(12, "exp7", "Experiment VII: Tiny ImageNet, patches of 4, 64 features"),
    results(14, "exp8", "Experiment VIII: Tiny ImageNet, patches of 8, 32 features"),
    results(16, "exp9", "Experiment IX: Tiny ImageNet, patches of 8, 64 features"),
    Exhibit("figure", 1, "Training loss of Experiment I", ("fast-attention/exp1/*",), draws=("curves",)),
    Exhibit("figure", 2, "Test loss of Experiment II", ("fast-attention/exp2/*",), draws=("curves",)),
)

CLAIMS = (
    *(beats(EXACT, model, CIFAR, f"on CIFAR-10 ViT beats {model}", "sections 5 and 6.1") for model in (RELU, EXP, FTHETA)),
    beats(FTHETA, RELU, CIFAR[:3], "on CIFAR-10 the learned kernel beats ReLU", "section 5, Experiments I to III"),
    beats(FTHETA, EXP, CIFAR[:3], "on CIFAR-10 the learned kernel beats exp", "section 5, Experiments I to III"),
    beats(RELU, EXP, CIFAR, "on CIFAR-10 ReLU beats exp", "tables 2 to 8"),
    *(
        beats(EXACT, model, TINY_4, f"on Tiny ImageNet with patches of 4 ViT beats {model}", "tables 10 to 12")
        for model in (RELU, EXP, FTHETA)
    ),
    beats(EXP, RELU, TINY_4 + TINY_8, "on Tiny ImageNet exp beats ReLU", "section 6.1"),
    beats(EXP, FTHETA, TINY_4 + TINY_8, "on Tiny ImageNet the learned kernel does not reach exp", "section 6.4"),
    beats(EXP, EXACT, TINY_8, "on Tiny ImageNet with patches of 8 exp beats ViT", "tables 14 and 16"),
    Claim(
        "64 features are no more accurate than 16 on CIFAR-10",
        "section 6.3",
        tuple(f"fast-attention/exp2/{m}" for m in (RELU, EXP, FTHETA)),
        tuple(f"fast-attention/exp1/{m}" for m in (RELU, EXP, FTHETA)),
        "not above",
        note="Its own table 6 has exp 1.2 points higher with 64 features, and ReLU and the learned kernel lower.",
    ),
    Claim(
        "patches of 4 are more accurate than patches of 8 on Tiny ImageNet",
        "section 6.2",
        tuple(f"fast-attention/exp6/{m}" for m in (EXACT, RELU, EXP, FTHETA)),
        tuple(f"fast-attention/exp8/{m}" for m in (EXACT, RELU, EXP, FTHETA)),
    ),
    cost(
        "at 65 tokens no Performer trains faster than ViT but ReLU with 16 features",
        "Experiment I",
        rows(EXP, CIFAR) + rows(FTHETA, CIFAR),
        rows(EXACT, CIFAR),
        "step",
        "above",
    ),
    cost(
        "at 65 tokens ReLU with 16 features trains faster than ViT",
        "Experiment I",
        rows(RELU, ("exp1",)),
        rows(EXACT, ("exp1",)),
        "step",
    ),
    cost(
        "at 65 tokens no Performer infers faster than ViT",
        "Experiment I",
        rows("performer-*", CIFAR),
        rows(EXACT, CIFAR),
        "inference",
        "above",
    ),
    cost(
        "at 257 tokens Performers train faster than ViT",
        "Experiments V to VII",
        rows("performer-*", TINY_4),
        rows(EXACT, TINY_4),
        "step",
    ),
    cost(
        "at 257 tokens Performers infer faster than ViT",
        "Experiments V to VII",
        rows("performer-*", TINY_4),
        rows(EXACT, TINY_4),
        "inference",
    ),
    cost(
        "at 257 tokens Performers need less memory than ViT",
        "Experiments V to VII",
        rows("performer-*", TINY_4),
        rows(EXACT, TINY_4),
        "memory",
    ),
    cost(
        "ReLU is the fastest Performer",
        "section 6.1",
        rows(RELU, CIFAR + TINY_4 + TINY_8),
        rows(EXP, CIFAR + TINY_4 + TINY_8),
        "step",
    ),
    cost(
        "more features cost time",
        "Experiment II",
        rows("performer-*", ("exp2", "exp7")),
        rows("performer-*", ("exp1", "exp5")),
        "step",
        "above",
    ),
)

NAMES = (
    Named("ViT", "section 3.1", ("model vit", "word softmax")),
    Named("Performer-ReLU", "section 4.4", ("word performer(kernel=relu, features=16)",)),
    Named(
        "Performer-exp",
        "section 4.4",
        ("word performer(features=16)",),
        "Its tables say generalized_attention FALSE: the softmax kernel",
    ),
    Named("Performer with a learned matrix", "section 4.4", ("word performer(kernel=matrix, features=16)",)),
    Named("CIFAR-10", "section 4.1", ("data cifar10",)),
    Named(
        "Tiny ImageNet",
        "section 4.1",
        ("data tiny-imagenet",),
        "200 classes where the whole set is; a part of 20 classes here",
    ),
    Named(
        "random crops, flips, normalization",
        "section 4.1",
        ("option data.crop", "option data.flip", "option data.mean"),
    ),
    Named(
        "Adam, weight decay 3e-5, batches of 256",
        "section 4.2",
        ("option train.optimizer", "option train.weight_decay", "option train.batch_size"),
    ),
    Named("cosine with warm restarts", "section 4.2", ("option train.schedule", "option train.restart_every")),
    Named("70, 80 and 84 epochs", "section 4.2", ("option train.epochs",)),
    Named("class token or average pooling", "section 4.2", ("option vit.pool",)),
    Named("dropout and embedding dropout", "tables 1 to 15", ("option vit.drop_rate", "option vit.pos_drop_rate")),
    Named("bias of q, k and v", "tables 1 to 15", ("option vit.qkv_bias",)),
    Named(
        "without a projection (no_projection)",
        "tables 1 to 15",
        ("word performer(kernel=relu, features=none)",),
        "FALSE in every table",
    ),
    Named("`epoch_step` 5", "tables 1 to 15", (), "It has no known meaning and no effect in its public code"),
    Named("accuracy, training and inference time, memory", "section 4.3", ("command vix compare", "command vix bench")),
    *(
        Named(f"Experiment {roman}", "section 5", (f"recipe fast-attention/exp{i}/*",))
        for i, roman in enumerate(("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"), 1)
    ),
    Named("figures 1 and 2, loss curves", "section 5", ("figure curves",)),
    Named("kernels as multi-layer perceptrons", "section 7, outlook", ("word performer(kernel=mlp)",)),
    Named("attention-like kernels", "section 6.4, outlook", ("word performer(kernel=prototypes)",)),
    Named(
        "convolutional or graph-based kernels",
        "section 7, outlook",
        ("word lens(look=conv)", "word lens(look=graph)"),
    ),
    Named(
        "regularization and optimizers for stability",
        "section 6.4, outlook",
        ("option train.clip", "option train.warmup", "option train.on_nan"),
    ),
    Named(
        "number of features adapted in training",
        "section 6.4, outlook",
        ("command vix search",),
        "Searched a layer, and grown by conversion",
    ),
    Named(
        "ImageNet and other domains",
        "section 7, outlook",
        ("data folder",),
        "Any folder of images; ImageNet itself was not run",
    ),
)

DOCUMENT = Document(
    name="fast-attention",
    title="Exploring Fast Attention Mechanisms: Performer vs Vision Transformers for Image Classification",
    year=2024,
    top1="max_top1",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    names=NAMES,
)
