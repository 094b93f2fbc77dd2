"""fast-attention/*: what "Exploring Fast Attention Mechanisms" prints and claims."""

from __future__ import annotations

from vixformer.documents.claims import FUSED, Claim, Column, Document, Exhibit, Measure, Named, named
from vixformer.results.evidence import Says

EXACT, RELU, EXP, FTHETA = ("vit", "performer-relu", "performer-exp", "performer-ftheta")
CIFAR, TINY_4, TINY_8 = ("exp1", "exp2", "exp3", "exp4"), ("exp5", "exp6", "exp7"), ("exp8", "exp9")
COLUMNS = (
    Column("train_seconds", "seconds an epoch", "seconds_an_epoch"),
    Column("inference_seconds", "inference s", "inference_ms"),
    Column("max_top1", "max test top-1", "test_max_top1"),
    Column("final_top1", "last test top-1", "test_last_top1"),
    Column("resource", "memory, ViT = 100", "peak_train_mb", here="peak MiB"),
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


def beats(one: str, other: str, experiments: tuple[str, ...], text: str, where: str, note: str = "") -> Claim:
    return Claim(text, where, rows(one, experiments), rows(other, experiments), note=note)


def cost(
    text: str, where: str, one: tuple[str, ...], other: tuple[str, ...], measure: Measure, says: Says = "below", note: str = ""
) -> Claim:
    column = {"step": "train_seconds", "inference": "inference_seconds", "memory": "resource"}[measure]
    return Claim(text, where, one, other, says, measure, column=column, note=note)


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

EVERY = "performer-*"
CLAIMS = (
    beats(EXACT, EVERY, CIFAR, "on CIFAR-10 ViT beats Performers", "sections 5 and 6.1"),
    beats(FTHETA, RELU, CIFAR[:3], "on CIFAR-10 the learned kernel beats ReLU", "section 5, Experiments I to III"),
    beats(FTHETA, EXP, CIFAR[:3], "on CIFAR-10 the learned kernel beats exp", "section 5, Experiments I to III"),
    beats(RELU, EXP, CIFAR, "on CIFAR-10 ReLU beats exp", "section 5, table 6"),
    beats(EXACT, EVERY, TINY_4, "on Tiny ImageNet with patches of 4 ViT beats Performers", "section 6.1"),
    beats(EXP, RELU, TINY_4 + TINY_8, "on Tiny ImageNet exp beats ReLU", "section 6.1"),
    beats(EXP, FTHETA, TINY_4 + TINY_8, "on Tiny ImageNet exp beats the learned kernel", "section 6.4"),
    beats(
        FTHETA,
        RELU,
        TINY_4 + TINY_8,
        "on Tiny ImageNet the learned kernel beats ReLU",
        "section 6.1",
        "Its text says that the learned kernel beats ReLU in most cases: it does in five of nine experiments, two of them here.",
    ),
    beats(
        EXP,
        EXACT,
        TINY_8,
        "on Tiny ImageNet with patches of 8 exp beats ViT",
        "Experiment VIII",
        "Its text on Experiment IX and its conclusion have ViT ahead; in tables 14 and 16 exp is, by 1 point at its best epoch.",
    ),
    Claim(
        "on CIFAR-10 64 features are no more accurate than 16",
        "section 6.3",
        tuple(f"fast-attention/exp2/{m}" for m in (RELU, EXP, FTHETA)),
        tuple(f"fast-attention/exp1/{m}" for m in (RELU, EXP, FTHETA)),
        "not above",
        note="Its own table 6 has exp 1.2 points higher with 64 features, and ReLU and the learned kernel lower.",
    ),
    Claim(
        "on Tiny ImageNet 32 features are more accurate than 16",
        "Experiment VI",
        tuple(f"fast-attention/exp6/{m}" for m in (RELU, EXP, FTHETA)),
        tuple(f"fast-attention/exp5/{m}" for m in (RELU, EXP, FTHETA)),
        note="Its own tables have the learned kernel 0.2 points lower with 32.",
    ),
    Claim(
        "on Tiny ImageNet patches of 4 are more accurate than patches of 8",
        "tables 11 and 14",
        tuple(f"fast-attention/exp6/{m}" for m in (EXACT, RELU, EXP, FTHETA)),
        tuple(f"fast-attention/exp8/{m}" for m in (EXACT, RELU, EXP, FTHETA)),
    ),
    cost(
        "at 65 tokens exp and the learned kernel train slower than ViT",
        "Experiments I to IV",
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
        rows(EVERY, CIFAR),
        rows(EXACT, CIFAR),
        "inference",
        "above",
    ),
    cost(
        "at 65 tokens Performers with 16 features need less memory than ViT",
        "Experiment I",
        rows(EVERY, ("exp1",)),
        rows(EXACT, ("exp1",)),
        "memory",
        note=FUSED,
    ),
    cost(
        "at 65 tokens Performers with 64 features need more memory than ViT",
        "Experiment II",
        rows(EVERY, ("exp2",)),
        rows(EXACT, ("exp2",)),
        "memory",
        "above",
        note=FUSED,
    ),
    cost("at 65 tokens with patches of 8 ViT trains fastest", "Experiment VIII", rows(EVERY, TINY_8), rows(EXACT, TINY_8), "step", "above"),
    cost(
        "at 257 tokens Performers train faster than ViT",
        "Experiments V to VII",
        rows(EVERY, TINY_4),
        rows(EXACT, TINY_4),
        "step",
    ),
    cost(
        "at 257 tokens Performers infer faster than ViT",
        "Experiments V to VII",
        rows(EVERY, TINY_4),
        rows(EXACT, TINY_4),
        "inference",
        note="Its own table 12 has exp with 64 features slower, 5.66 s against 5.36 s.",
    ),
    cost(
        "at 257 tokens Performers need less memory than ViT",
        "Experiments V to VII",
        rows(EVERY, TINY_4),
        rows(EXACT, TINY_4),
        "memory",
        note=FUSED,
    ),
    cost(
        "ReLU trains faster than exp",
        "section 6.1",
        rows(RELU, CIFAR + TINY_4 + TINY_8),
        rows(EXP, CIFAR + TINY_4 + TINY_8),
        "step",
    ),
    cost(
        "ReLU trains faster than the learned kernel",
        "section 6.1",
        rows(RELU, CIFAR + TINY_4 + TINY_8),
        rows(FTHETA, CIFAR + TINY_4 + TINY_8),
        "step",
    ),
    cost(
        "64 features train slower than 16",
        "Experiment II",
        rows(EVERY, ("exp2", "exp7")),
        rows(EVERY, ("exp1", "exp5")),
        "step",
        "above",
    ),
)

SIZES = ("option vit.embed_dim", "option vit.depth", "option vit.num_heads", "option vit.head_dim", "option vit.mlp_dim")
NAMES = (
    *named(
        "system",
        Named("ViT", "section 3.1", ("model vit", "word softmax", "recipe fast-attention/exp1/vit")),
        Named("patch embedding, positions, encoder, pooling, head", "section 3.1", ("option vit.patch_size", "option vit.pos")),
        Named("Performer, FAVOR+", "section 3.2", ("word performer",)),
        Named("Performer-ReLU", "section 4.4", ("word performer(kernel=relu, features=16)",)),
        Named(
            "Performer-exp",
            "section 4.4",
            ("word performer(features=16)",),
            "Its tables say generalized_attention FALSE: the softmax kernel",
        ),
        Named(
            "Performer-fθ: a learned square matrix, then ReLU",
            "section 4.4",
            ("word performer(kernel=matrix, features=16)",),
            "The matrix comes after the random projection, where performer-pytorch calls its kernel_fn",
        ),
        Named("generalized attention", "section 3.2", ("word performer(kernel=relu)", "word performer(kernel=elu)")),
    ),
    *named(
        "data",
        Named("CIFAR-10", "section 4.1", ("data cifar10",)),
        Named(
            "Tiny ImageNet",
            "section 4.1",
            ("data tiny-imagenet",),
            "200 classes where the whole set is; a part of 20 classes here. Its labeled validation images are the test set, as there",
        ),
        Named("random crops, flips, normalization", "section 4.1", ("option data.crop", "option data.flip", "option data.mean")),
        Named("resizing", "section 4.1", ("option data.resize",)),
    ),
    *named(
        "setting",
        Named(
            "dim, depth, heads, dim_head, mlp_dim",
            "tables 1 to 15",
            SIZES,
            shows=tuple(f"table {n}" for n in (1, 3, 7, 9, 13, 15)),
        ),
        Named("patches of 4 and 8", "section 4.4", ("option vit.patch_size", "recipe fast-attention/exp8/*")),
        Named("class token or average pooling", "section 4.2", ("option vit.pool",), "`cls` in every table"),
        Named("dropout and embedding dropout", "tables 1 to 15", ("option vit.drop_rate", "option vit.pos_drop_rate")),
        Named(
            "dropout of attention weights", "public code", ("word softmax(drop=0.15)",), "Of vit-pytorch, which its options are named after"
        ),
        Named("qkv_bias", "tables 1 to 15", ("option vit.qkv_bias",), "Its ViT has none"),
        Named("nb_features 16, 32, 64", "tables 1 to 15", ("word performer(features=32)",)),
        Named("no_projection", "tables 1 to 15", ("word performer(kernel=relu, features=none)",), "FALSE in every table"),
        Named("Adam, weight decay 3e-5", "section 4.2", ("option train.optimizer", "option train.weight_decay", "option train.decays")),
        Named("learning rates of 0.0008 to 0.0025", "section 4.2", ("option train.lr",), "Its tables have 0.0015 and 0.0016 alone"),
        Named("batches of 256", "section 4.2", ("option train.batch_size",)),
        Named(
            "cosine with warm restarts, T_0 of 10 and 12",
            "section 4.2",
            ("option train.schedule", "option train.restart_every", "option train.restart_growth"),
            "Periods double: 70 = 10 + 20 + 40 and 84 = 12 + 24 + 48",
        ),
        Named("70, 80 and 84 epochs", "section 4.2", ("option train.epochs",), "No T_0 fits 80 epochs: they end just before a period does"),
        Named("`epoch_step` 5", "tables 1 to 15", (), "It has no known meaning, and no schedule in its text uses it"),
        Named("A10 and A100 GPUs", "section 4.2", ("command vix bench",), "Two CPU cores here; `--device cuda` is written and was not run"),
    ),
    *named(
        "measure",
        Named("max and final test accuracy", "section 4.3", ("option train.track_test", "page fast-attention.md")),
        Named("training time an epoch", "section 4.3", ("command vix compare", "tool runs")),
        Named("inference time on the test set", "section 4.3", ("command vix bench", "tool runs")),
        Named(
            "memory, ViT = 100",
            "section 4.3",
            ("tool runs", "word softmax(naive=true)", "page fast-attention.md"),
            "Of a GPU there; here the peak of a training step on a CPU, beside exact attention that keeps its scores (`naive=true`)",
        ),
    ),
    *named(
        "experiment",
        *(
            Named(f"Experiment {roman}", "section 5", (f"recipe fast-attention/exp{i}/*", f"recipe fast-attention-as-printed/exp{i}/*"))
            for i, roman in enumerate(("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"), 1)
        ),
        Named("all four models with the same settings", "section 4.4", ("command vix compare",)),
    ),
    *named(
        "outlook",
        Named("kernels as multi-layer perceptrons", "sections 6.4 and 7", ("word performer(kernel=mlp)",)),
        Named("attention-like kernels", "section 6.4", ("word performer(kernel=prototypes)",)),
        Named("convolutional kernels", "section 7", ("word lens(look=conv)",)),
        Named("graph-based kernels", "section 7", ("word lens(look=graph)",)),
        Named("regularization for stability", "section 6.4", ("option train.clip", "option vit.drop_path_rate", "option train.on_nan")),
        Named("advanced optimizers", "section 6.4", ("option train.optimizer", "option train.warmup")),
        Named(
            "number of features adapted in training",
            "section 6.4",
            ("word performer(kernel=relu, gate=0.1)", "command vix search"),
            "A gate a feature with a price, or a search a layer",
        ),
        Named("full ImageNet", "section 7", ("data folder",), "Any folder of images; ImageNet itself was not run"),
        Named("medical imaging, remote sensing", "section 7", ("data folder", "data hub"), "Your own images"),
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
    tables=16,
    figures=2,
)
