"""What the five documents print and claim, as data: tables, figures, claims, and where everything they name is here.

NAME.csv has the printed figures, NAME.exhibits.csv the tables and figures, NAME.claims.csv the claims, NAME.names.csv
what else is named. They are tables because that is how people read and review them.
"""

from vixformer.documents.claims import Column, Document, find, read_document

FAST_ATTENTION = read_document(
    "fast-attention",
    "Exploring Fast Attention Mechanisms: Performer vs Vision Transformers for Image Classification",
    2024,
    top1="max_top1",
    columns=(
        Column("train_seconds", "seconds an epoch", "seconds_an_epoch"),
        Column("inference_seconds", "inference s", "inference_ms"),
        Column("max_top1", "max test top-1", "test_max_top1"),
        Column("final_top1", "last test top-1", "test_last_top1"),
        Column("resource", "memory, ViT = 100", "peak_train_mb", here="peak MiB"),
    ),
    tables=16,
    figures=2,
)
CIFAR_KERNELS = read_document(
    "cifar-kernels",
    "Optimizing Image Classification on CIFAR-10 with Transformer Architectures",
    2024,
    top1="test_top1",
    columns=(
        Column("seconds_an_epoch", "seconds an epoch", "seconds_an_epoch"),
        Column("inference_seconds", "inference s", "inference_ms"),
        Column("test_top1", "test top-1", "test_top1"),
        Column("epochs", "epochs", "epochs", 0),
    ),
    tables=3,
    figures=20,
    note=(
        "Its Performers see one token, so attention returns v: rows differ in width, depth, activation and optimizer."
        " The claims on a grid of tokens ask its question of one network with tokens to attend to."
    ),
)
LINEAR_TESTS = read_document(
    "linear-tests",
    "Testing linear-attention Transformers",
    2023,
    top1="val_top1",
    columns=(Column("step_ms", "step ms", "ms_a_step"), Column("val_top1", "validation top-1", "val_top1")),
)
HYBRID = read_document(
    "hybrid",
    "Hybrid Transformer Models with Performer and Regular Attention",
    2025,
    top1="test_top1",
    columns=(
        Column("test_top1", "test top-1", "test_max_top1"),
        Column("train_top1", "train top-1", "train_top1"),
        Column("seconds_an_epoch", "seconds an epoch", "seconds_an_epoch"),
        Column("inference_ms", "inference ms", "inference_ms"),
    ),
    tables=3,
    figures=7,
)
XFORMERS = read_document(
    "xformers",
    "Vision Xformers: Efficient Attention for Image Classification",
    2021,
    top1="top1",
    columns=(
        Column("parameters", "parameters", "parameters_in_modules", 0),
        Column("size_mb", "size, MB", "torchsummary_mb"),
        Column("top1", "top-1", "test_max_top1"),
        Column("top5", "top-5", "test_top5"),
        Column("gpu_gb", "GPU GB", "peak_train_mb", here="peak MiB"),
    ),
    tables=6,
    figures=4,
)
DOCUMENTS = {found.name: found for found in (FAST_ATTENTION, CIFAR_KERNELS, LINEAR_TESTS, HYBRID, XFORMERS)}

__all__ = ["DOCUMENTS", "Document", "find"]
