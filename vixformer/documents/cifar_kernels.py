"""cifar-kernels/*: what "Optimizing Image Classification on CIFAR-10 with Transformer Architectures" prints and claims."""

from __future__ import annotations

from vixformer.documents.base import Claim, Column, Document, Exhibit, Measure, Named
from vixformer.results.evidence import Says

COLUMNS = (
    Column("seconds_an_epoch", "seconds an epoch", "seconds_an_epoch"),
    Column("inference_seconds", "inference s", "inference_ms"),
    Column("test_top1", "test top-1", "test_top1"),
    Column("epochs", "epochs", "epochs", 0),
)
ONE_TOKEN = "All Performers see one token, so attention returns v: what differs is width, depth, activation and optimizer."
FINAL = {"ViT": "vit", "ReLU": "relu", "ELU": "elu-4", "GELU": "gelu-4", "EXP": "exp", "f-theta": "ftheta"}
"""The models of its table of results."""


def row(name: str) -> tuple[str, ...]:
    return (f"cifar-kernels/{FINAL[name]}",)


def grid(*kernels: str) -> tuple[str, ...]:
    return tuple(f"cifar-kernels-grid/{kernel}" for kernel in kernels)


def cost(text: str, where: str, one: str, other: str, measure: Measure, says: Says = "below") -> Claim:
    column = {"step": "seconds_an_epoch", "inference": "inference_seconds"}[measure]
    return Claim(text, where, row(one), row(other), says, measure, column=column, note=ONE_TOKEN)


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
    Claim("ReLU beats ViT", "section 9.2", row("ReLU"), row("ViT"), note=ONE_TOKEN),
    Claim("GELU beats ReLU", "section 6.2.6", row("GELU"), row("ReLU"), note=ONE_TOKEN + " It prints 88.64 and 88.46 %."),
    Claim("ELU is behind ReLU", "section 6.1.7", row("ELU"), row("ReLU"), "below", note=ONE_TOKEN),
    Claim("EXP beats ViT", "section 7.3", row("EXP"), row("ViT"), note=ONE_TOKEN),
    Claim("EXP is behind ReLU", "section 7.3", row("EXP"), row("ReLU"), "below", note=ONE_TOKEN),
    Claim("the learned kernel beats ViT", "section 9.1", row("f-theta"), row("ViT"), note=ONE_TOKEN),
    Claim("the learned kernel is behind ReLU", "section 8.5", row("f-theta"), row("ReLU"), "below", note=ONE_TOKEN),
    Claim(
        "an eighth of the learning rate is better for GELU than a tenth",
        "section 6.2.5",
        ("cifar-kernels/gelu-4",),
        ("cifar-kernels/gelu-2",),
        note=ONE_TOKEN,
    ),
    Claim(
        "ELU with AdamW, 8 heads and alpha 0.25 beats its first settings",
        "section 6.1.6",
        ("cifar-kernels/elu-4",),
        ("cifar-kernels/elu-1",),
        note=ONE_TOKEN,
    ),
    cost("ReLU trains faster than ViT", "section 9.2", "ReLU", "ViT", "step"),
    cost("EXP trains faster than ViT", "section 7.3", "EXP", "ViT", "step"),
    cost("ELU trains faster than ReLU", "section 6.1.7", "ELU", "ReLU", "step"),
    cost("ReLU infers faster than ViT", "section 9.2", "ReLU", "ViT", "inference"),
    *ON_A_GRID,
)

NAMES = (
    Named("ViT", "section 4", ("recipe cifar-kernels/vit",)),
    Named(
        "ViT with pretrained weights",
        "section 4.4.1",
        ("recipe cifar-kernels/vit-pretrained",),
        "You bring the weights: none can be downloaded here",
    ),
    Named("Performer with ReLU(Wx + b)", "section 5", ("recipe cifar-kernels/relu", "word performer(kernel=relu, bias=true)")),
    Named(
        "Performer with ELU(alpha), in convolutions and embedding too",
        "section 6.1",
        tuple(f"recipe cifar-kernels/elu-{i}" for i in range(1, 5)),
    ),
    Named("Performer with GELU", "section 6.2", tuple(f"recipe cifar-kernels/gelu-{i}" for i in range(1, 5))),
    Named("unshifted ELU and GELU features, and its NaNs", "sections 6.1.5 and 6.2.2", ("word performer(kernel=gelu, raw=true)",)),
    Named("Performer with exp, clamped to [-10, 10]", "section 7", ("recipe cifar-kernels/exp", "word performer(kernel=exp, clamp=10)")),
    Named(
        "adjustable and dynamic clamps",
        "section 7.1",
        ("word performer(kernel=exp, clamp=dynamic)", "word performer(kernel=exp, clamp=10, clamp_min=-5)"),
    ),
    Named("learned mixture of exp and ReLU", "section 8.3", ("recipe cifar-kernels/ftheta-mixture", "word performer(kernel=mixture)")),
    Named("the mixture's weight by epoch", "section 8.3.3", ("figure curves",), "Every epoch's value is in the run's history"),
    Named("learned network of features", "section 8.4", ("recipe cifar-kernels/ftheta", "recipe cifar-kernels/ftheta-raw")),
    Named("three convolutions, one token", "section 5.1", ("model convtoken",), "With one token every kernel returns v"),
    Named("the same kernels with tokens to attend to", "not in the document", ("recipe cifar-kernels-grid/*",)),
    Named("a class token, learned positions", "section 4.5", ("option vit.pool", "option vit.pos")),
    Named(
        "flattened pixels as tokens",
        "section 2.2",
        (),
        "Described in its theory; none of its models does it, and 3,072 tokens of one number each are not built here",
    ),
    Named("random crops and flips, normalization", "section 3.2", ("option data.crop", "option data.flip", "option data.mean")),
    Named("stratified folds", "section 5.2.4", ("option data.folds", "command vix compare")),
    Named("mixed precision", "section 5.2.1", ("option train.precision",)),
    Named(
        "halving and cosine schedules", "section 5.2.2", ("option train.schedule", "option train.step_every", "option train.step_factor")
    ),
    Named("one-cycle schedule with warm-up", "section 6.2.3", ("option train.schedule", "option train.warmup")),
    Named("gradient clipping", "section 6.2.3", ("option train.clip",)),
    Named("early stopping", "section 5.2.3", ("option train.patience", "option train.monitor")),
    Named("Adam, AdamW, SGD", "section 3.5", ("option train.optimizer",)),
    Named("grid search", "section 4.1.2", ("command vix search",)),
    Named("Optuna with pruning", "sections 4.2 and 7.2", ("command vix search",)),
    Named("precision, recall and F1 of each class", "section 5.5", ("figure classes", "figure confusion")),
    Named("attention maps of confused classes", "section 5.5", ("figure attention", "figure confused")),
    Named(
        "loss weights for hard classes",
        "section 5.5",
        ("recipe cifar-kernels/relu-weighted", "recipe cifar-kernels/relu-focal", "option train.class_weights"),
    ),
    Named("CIFAR-100", "section 9.3", ("recipe cifar-kernels/relu-cifar100", "data cifar100")),
    Named("sine and cosine features, called deterministic kernels", "section 2.5.3", ("word performer(kernel=trig)",)),
    Named("table 1", "section 6.1.7", ("page cifar-kernels.md",)),
    Named("figures 1 to 4, diagrams of attention", "section 2", (), "Diagrams of what attention is: docs/mechanisms.md has the formulas"),
    Named("advanced and hybrid kernels", "section 9.4, outlook", ("word prism", "word lens")),
    Named("ImageNet", "section 9.4, outlook", ("data folder",), "Any folder of images; ImageNet itself was not run"),
    Named("automated tuning", "section 9.4, outlook", ("command vix search",)),
)

DOCUMENT = Document(
    name="cifar-kernels",
    title="Optimizing Image Classification on CIFAR-10 with Transformer Architectures",
    year=2024,
    top1="test_top1",
    exhibits=EXHIBITS,
    claims=CLAIMS,
    names=NAMES,
)
