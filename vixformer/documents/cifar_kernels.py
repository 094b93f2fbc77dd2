"""cifar-kernels/*: what "Optimizing Image Classification on CIFAR-10 with Transformer Architectures" prints and claims."""

from __future__ import annotations

from vixformer.documents.claims import Claim, Column, Document, Exhibit, Measure, Named, named
from vixformer.results.evidence import Says

COLUMNS = (
    Column("seconds_an_epoch", "seconds an epoch", "seconds_an_epoch"),
    Column("inference_seconds", "inference s", "inference_ms"),
    Column("test_top1", "test top-1", "test_top1"),
    Column("epochs", "epochs", "epochs", 0),
)
ONE_TOKEN = (
    "Its Performers see one token, so attention returns v: rows differ in width, depth, activation and optimizer. The claims on a grid of "
    "tokens ask its question of one network with tokens to attend to."
)
FINAL = {"ViT": "vit", "ReLU": "relu", "ELU": "elu-4", "GELU": "gelu-4", "EXP": "exp", "f-theta": "ftheta"}
"""The models of its table of results."""


def row(name: str) -> tuple[str, ...]:
    return (f"cifar-kernels/{FINAL[name]}",)


def grid(*kernels: str) -> tuple[str, ...]:
    return tuple(f"cifar-kernels-grid/{kernel}" for kernel in kernels)


def cost(text: str, where: str, one: str, other: str, measure: Measure, says: Says = "below", more: str = "") -> Claim:
    column = {"step": "seconds_an_epoch", "inference": "inference_seconds"}[measure]
    return Claim(text, where, row(one), row(other), says, measure, column=column, note=more)


def table(number: int, about: str, rows: tuple[str, ...]) -> Exhibit:
    return Exhibit("table", number, about, rows, COLUMNS, base="cifar-kernels/relu")


def curves(number: int, name: str) -> Exhibit:
    return Exhibit("figure", number, f"Loss and accuracy by epoch: {name}", (f"cifar-kernels/{name}",), draws=("curves",))


RESULTS = tuple(f"cifar-kernels/{name}" for name in FINAL.values())
CURVES = {9: "vit", 11: "relu", 13: "elu-1", 14: "elu-2", 15: "elu-3", 16: "elu-4", 17: "gelu-2", 18: "gelu-3", 19: "gelu-4", 20: "exp"}
EXHIBITS = (
    table(1, "ReLU beside ELU", (*row("ReLU"), *row("ELU"))),
    table(2, "ReLU beside GELU", (*row("ReLU"), *row("GELU"))),
    table(3, "The learned kernel", (*row("f-theta"), *row("ReLU"))),
    Exhibit("table", 4, "All models (its section 9.1, without a number there)", RESULTS, COLUMNS, base="cifar-kernels/vit"),
    Exhibit("figure", 5, "Images of the ten classes", row("ReLU"), draws=("augmentation",)),
    Exhibit("figure", 6, "A normalized image", row("ReLU"), draws=("augmentation",)),
    Exhibit("figure", 7, "Crop, flip and normalization, step by step", row("ReLU"), draws=("augmentation",)),
    Exhibit("figure", 8, "Channels and how their values are spread", row("ReLU"), draws=("channels",)),
    Exhibit("figure", 10, "Confusion matrix of ReLU", row("ReLU"), draws=("confusion",)),
    Exhibit("figure", 12, "Accuracy of each class of ReLU", row("ReLU"), draws=("classes",)),
    *(curves(number, name) for number, name in CURVES.items()),
)


def on_a_grid(text: str, one: str, other: str, printed: float, says: Says = "above") -> Claim:
    """Its question, asked of the same network with tokens to attend to; the printed effect is that over one token."""
    return Claim(f"on a grid of tokens {text}", "section 9.1", grid(one), grid(other), says, printed=printed)


ON_A_GRID = (
    on_a_grid("ReLU beats exact attention", "relu", "exact", 87.39 - 84.79),
    on_a_grid("GELU beats ReLU", "gelu", "relu", 88.64 - 87.39),
    on_a_grid("ELU is behind ReLU", "elu", "relu", 77.48 - 87.39, "below"),
    on_a_grid("EXP beats exact attention", "exp", "exact", 86.17 - 84.79),
    on_a_grid("EXP is behind ReLU", "exp", "relu", 86.17 - 87.39, "below"),
    on_a_grid("the learned mixture beats exact attention", "mixture", "exact", 84.84 - 84.79),
    on_a_grid("the learned network is behind ReLU", "mlp", "relu", 85.08 - 87.39, "below"),
)
CLAIMS = (
    Claim("ReLU beats ViT", "section 9.2", row("ReLU"), row("ViT")),
    Claim(
        "GELU beats ReLU",
        "section 6.2.6",
        row("GELU"),
        row("ReLU"),
        note="It prints 88.64 and 88.46 % for GELU, and its section 9.4 calls ReLU the most accurate.",
    ),
    Claim("ELU is behind ReLU", "section 6.1.7", row("ELU"), row("ReLU"), "below"),
    Claim("EXP beats ViT", "section 7.3", row("EXP"), row("ViT")),
    Claim("EXP is behind ReLU", "section 7.3", row("EXP"), row("ReLU"), "below"),
    Claim("the learned kernel beats ViT", "section 9.1", row("f-theta"), row("ViT")),
    Claim(
        "the learned kernel is behind ReLU",
        "section 8.5",
        row("f-theta"),
        row("ReLU"),
        "below",
        note="Its section 8.7 says that it beats fixed kernels; in its own table it beats ELU alone.",
    ),
    Claim(
        "the learned network beats the learned mixture",
        "section 8.4",
        row("f-theta"),
        ("cifar-kernels/ftheta-mixture",),
    ),
    Claim(
        "an eighth of the learning rate is better for GELU than a tenth",
        "section 6.2.5",
        ("cifar-kernels/gelu-4",),
        ("cifar-kernels/gelu-2",),
    ),
    Claim(
        "ELU with AdamW, 8 heads and alpha 0.25 beats its first settings",
        "section 6.1.6",
        ("cifar-kernels/elu-4",),
        ("cifar-kernels/elu-1",),
    ),
    Claim(
        "three layers, a lower rate and more dropout are worse for ELU than two",
        "section 6.1.5",
        ("cifar-kernels/elu-3",),
        ("cifar-kernels/elu-2",),
        "below",
    ),
    cost("ReLU trains faster than ViT", "section 9.2", "ReLU", "ViT", "step", more="It prints 56 and 72 s for ViT, 31 and 38 s for ReLU."),
    cost("EXP trains faster than ViT", "section 7.3", "EXP", "ViT", "step"),
    cost("EXP trains faster than ReLU", "section 9.4", "EXP", "ReLU", "step", more="Its own table has 34 s for EXP and 31 s for ReLU."),
    cost(
        "ELU trains faster than ReLU",
        "section 6.1.7",
        "ELU",
        "ReLU",
        "step",
        more="Its section 9.1 calls ReLU the fastest; its section 9.2 has 31 s for ELU.",
    ),
    cost("GELU takes as long to train as ReLU", "section 6.2.6", "GELU", "ReLU", "step", "equal", "GELU has one layer there, ReLU four."),
    cost("ReLU infers faster than ViT", "section 9.2", "ReLU", "ViT", "inference"),
    cost("ELU infers faster than ReLU", "section 6.1.7", "ELU", "ReLU", "inference"),
    Claim(
        "learning the features costs time",
        "section 8.5",
        row("f-theta"),
        ("cifar-kernels/ftheta-twin",),
        "above",
        "step",
        printed=1.123,
        note="It says +12.3 % without what it is compared with; here the same network with as many ReLU features.",
    ),
    *ON_A_GRID,
)

NAMES = (
    *named(
        "system",
        Named("ViT (Algorithm 1)", "section 4", ("recipe cifar-kernels/vit",)),
        Named(
            "ViT with pretrained weights",
            "section 4.4.1",
            ("recipe cifar-kernels/vit-pretrained",),
            "You bring the weights: none can be downloaded here. It prints no figure",
        ),
        Named("Performer with ReLU(Wx + b)", "section 5", ("recipe cifar-kernels/relu", "word performer(kernel=relu, bias=true)")),
        Named(
            "Performer with ELU(alpha), in convolutions and embedding too",
            "section 6.1",
            tuple(f"recipe cifar-kernels/elu-{i}" for i in range(1, 5)),
        ),
        Named("Performer with GELU", "section 6.2", tuple(f"recipe cifar-kernels/gelu-{i}" for i in range(1, 5))),
        Named(
            "unshifted ELU and GELU features, and its NaNs",
            "sections 6.1.5 and 6.2.2",
            ("word performer(kernel=gelu, raw=true)", "tool stability"),
            "Features are shifted above zero unless `raw=true`",
        ),
        Named(
            "Performer with exp, clamped to [-10, 10]", "section 7", ("recipe cifar-kernels/exp", "word performer(kernel=exp, clamp=10)")
        ),
        Named(
            "adjustable and dynamic clamps",
            "section 7.1",
            ("word performer(kernel=exp, clamp=dynamic)", "word performer(kernel=exp, clamp=10, clamp_min=-5)"),
        ),
        Named("learned mixture of exp and ReLU", "section 8.3", ("recipe cifar-kernels/ftheta-mixture", "word performer(kernel=mixture)")),
        Named("learned network of features", "section 8.4", ("recipe cifar-kernels/ftheta", "recipe cifar-kernels/ftheta-raw")),
        Named("three convolutions, one token", "section 5.1", ("model convtoken",), "With one token every kernel returns v"),
        Named("the same kernels with tokens to attend to", "not in the document", ("recipe cifar-kernels-grid/*",)),
        Named("sine and cosine features, called deterministic kernels", "section 2.5.3", ("word performer(kernel=trig)",)),
        Named("positive random features", "section 2.5.3", ("word performer(kernel=softmax)",)),
        Named("multi-head attention", "section 2.3", ("word softmax", "option vit.num_heads")),
        Named(
            "flattened pixels as tokens, 3,072 of one number each",
            "section 2.2",
            (),
            "Described in its theory; none of its models does it. `patch_size=1` has 1,024 tokens of three numbers each",
        ),
    ),
    *named(
        "data",
        Named("CIFAR-10", "section 3.1", ("data cifar10",)),
        Named("random crops with padding 4, flips", "section 3.2", ("option data.crop", "option data.flip")),
        Named("normalization of each channel", "section 3.2", ("option data.mean", "option data.std")),
        Named(
            "stratified folds",
            "sections 3.3 and 5.2.4",
            ("option data.folds", "command vix compare"),
            "Its 48,000 + 12,000 images add up to more than the 50,000 there are: five folds of 40,000 + 10,000 here",
        ),
        Named("CIFAR-100", "section 9.3", ("recipe cifar-kernels/relu-cifar100", "data cifar100")),
    ),
    *named(
        "setting",
        Named("a class token, learned positions", "section 4.5", ("option vit.pool", "option vit.pos")),
        Named("patches of 4 and 8", "section 4.1.2", ("option vit.patch_size",)),
        Named("norm after each sum, ReLU between layers of the MLP", "section 2.4", ("option vit.norm_place", "option vit.act")),
        Named("a norm before the head", "section 4.5", ("option vit.head_norm",)),
        Named("residual after the norm", "section 7.4", ("option convtoken.residual",)),
        Named(
            "widths of 256 to 1024, 1 to 5 layers, 8 to 16 heads",
            "sections 5.1 to 7.2",
            ("option convtoken.embed_dim", "option convtoken.depth", "option convtoken.num_heads"),
        ),
        Named("64 to 764 features", "sections 5.1 to 7.2", ("word performer(kernel=relu, features=512)",)),
        Named("dropout of 0 to 0.5", "section 3.5", ("option convtoken.drop_rate",), "Its f-theta has 5.0: read as 0.5"),
        Named("epsilon of 1e-6 in features and denominator", "section 5.1", ("word performer(kernel=relu, eps=1e-6, total_eps=1e-6)",)),
        Named("initial values of the mixture, temperature", "section 8.3.2", ("word performer(kernel=mixture)",)),
        Named("Adam, AdamW, SGD", "section 3.5", ("option train.optimizer",)),
        Named("learning rate, batch size", "section 3.5", ("option train.lr", "option train.batch_size")),
        Named("weight decay of f-theta", "section 8.4", ("option train.weight_decay",), "It prints no number: 1e-4"),
        Named("mixed precision with a gradient scaler", "section 5.2.1", ("option train.precision",)),
        Named("halving the rate every 5 epochs", "section 5.2.2", ("option train.step_every", "option train.step_factor")),
        Named("cosine schedule", "section 5.2.2", ("option train.schedule",)),
        Named("one-cycle schedule with 5 epochs of warm-up", "section 6.2.3", ("option train.schedule", "option train.warmup")),
        Named("gradient clipping at 1.0", "section 6.2.3", ("option train.clip",)),
        Named("early stopping after 10 epochs", "section 5.2.3", ("option train.patience", "option train.monitor")),
        Named("grid search", "sections 4.1.2 and 7.2", ("command vix search",)),
        Named("Optuna with pruning", "sections 4.2 and 7.2", ("command vix search",)),
        Named(
            "A100 of Google Colab", "section 3.4", ("command vix bench",), "Two CPU cores here; `--device cuda` is written and was not run"
        ),
    ),
    *named(
        "measure",
        Named("test accuracy, validation loss", "section 5.4", ("page cifar-kernels.md",)),
        Named("seconds an epoch, inference of the test set", "section 5.5", ("tool runs", "command vix bench")),
        Named("precision, recall and F1 of each class", "section 5.5", ("figure classes", "command vix report")),
        Named("pairs of classes that are confused", "section 5.5", ("figure confusion", "figure confused")),
        Named("attention maps of confused classes", "section 5.5", ("figure attention",)),
        Named("the mixture's weight by epoch", "section 8.3.2", ("figure curves",), "Every epoch's value is in the run's history"),
        Named("stopping epoch", "section 6.1.7", ("command vix runs",)),
        Named("overhead of learned features", "section 8.5", ("recipe cifar-kernels/ftheta-twin", "tool runs")),
    ),
    *named(
        "exhibit",
        Named(
            "figures 1 to 4, diagrams of attention",
            "section 2",
            ("page ../mechanisms.md",),
            "Diagrams of what attention is: here formulas",
            shows=tuple(f"figure {n}" for n in range(1, 5)),
        ),
        Named("tables of settings", "sections 4 to 7", ("command vix show", "recipe cifar-kernels/*")),
        Named("table of precision, recall and F1", "section 5.5", ("figure classes",)),
    ),
    *named(
        "experiment",
        Named("four settings of ELU", "sections 6.1.3 to 6.1.6", ("recipe cifar-kernels/elu-*",)),
        Named("four settings of GELU", "sections 6.2.2 to 6.2.5", ("recipe cifar-kernels/gelu-*",)),
        Named("search spaces of ViT, ReLU, ELU and EXP", "sections 4.1.2 to 7.2", ("command vix search",)),
    ),
    *named(
        "outlook",
        Named(
            "loss weights for hard classes",
            "section 5.5",
            ("recipe cifar-kernels/relu-weighted", "recipe cifar-kernels/relu-focal", "option train.class_weights"),
        ),
        Named("augmentation for hard classes", "section 9.3", ("option data.cutout", "option data.rotate"), "For all classes, not some"),
        Named("dynamic scaling factors", "section 7.3", ("word performer(kernel=mixture)",), "A learned temperature"),
        Named("more regularization", "section 9.3", ("option vit.drop_path_rate", "option train.label_smoothing")),
        Named("hybrid and learned kernels", "section 9.4", ("word prism", "word lens", "word performer(kernel=prototypes)")),
        Named("ImageNet", "section 9.4", ("data folder",), "Any folder of images; ImageNet itself was not run"),
        Named("automated tuning", "section 9.4", ("command vix search",)),
    ),
)

DOCUMENT = Document(
    name="cifar-kernels",
    title="Optimizing Image Classification on CIFAR-10 with Transformer Architectures",
    year=2024,
    top1="test_top1",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    names=NAMES,
    tables=3,
    figures=20,
    note=ONE_TOKEN,
)
