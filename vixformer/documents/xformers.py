"""xformers/*: what "Vision Xformers: Efficient Attention for Image Classification" prints and claims."""

from __future__ import annotations

from vixformer.documents.claims import FUSED, Claim, Column, Document, Exhibit, Named, named
from vixformer.results.evidence import Says

COLUMNS = (
    Column("parameters", "parameters", "parameters_in_modules", 0),
    Column("size_mb", "size, MB", "torchsummary_mb"),
    Column("top1", "top-1", "test_max_top1"),
    Column("top5", "top-5", "test_top5"),
    Column("gpu_gb", "GPU GB", "peak_train_mb", here="peak MiB"),
)
CIFAR, TINY = "cifar10", "tiny-imagenet"
SETS = {CIFAR: "CIFAR-10", TINY: "Tiny ImageNet"}
KIN = {"vit": "ViT", "vip": "ViP", "vil": "ViL", "vin": "ViN", "levit": "LeViT", "cct": "CCT", "cvt": "CvT", "pit": "PiT"}
"""Its names; P is Performer, L Linformer, N Nystrom."""
Rows = str | tuple[str, ...]
EXACT_FIRST = "With rotary positions exact attention leads the four rows, where it was last without them."


def rows(*names: str, data: str = CIFAR) -> tuple[str, ...]:
    return tuple(f"xformers/{data}/{name}" for name in names)


def beats(text: str, where: str, one: Rows, other: Rows, data: str = CIFAR, says: Says = "above", note: str = "") -> Claim:
    return Claim(f"on {SETS[data]} {text}", where, rows(*_names(one), data=data), rows(*_names(other), data=data), says, note=note)


def _names(found: Rows) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else found


def memory(text: str, one: tuple[str, ...], other: str, note: str = "") -> Claim:
    text, note = f"{text} need less memory than {KIN[other]}", f"{FUSED} {note}".strip()
    return Claim(text, "tables 1 to 5", rows(*one), rows(other), "below", "memory", column="gpu_gb", note=note)


PLAIN = (
    beats("Nystrom beats exact attention", "section 5.1", "vin", "vit", note="Its text says 16 % better; 65.06 is 14.5 % more than 56.81."),
    beats("Performer beats exact attention", "section 5.1", "vip", "vit"),
    beats("Linformer beats exact attention", "section 5.1", "vil", "vit", note="Its text says 2 % better; 57.45 is 1.1 % more than 56.81."),
    beats("FNet is behind exact attention", "section 5.1", "fnet", "vit", says="below"),
    beats("MLP-Mixer beats exact attention", "section 5.1", "mixer", "vit"),
    beats("Nystrom and Performer beat exact attention", "section 5.1", ("vin", "vip"), "vit", TINY),
    beats("Linformer beats exact attention", "section 5.1", "vil", "vit", TINY, note="Its own table has Linformer 2.05 points below."),
    beats("FNet beats MLP-Mixer", "section 5.1", "fnet", "mixer", TINY),
)
CONVOLUTIONS = (
    beats(
        "convolutions in front help ViT, Performer, Linformer and Nystrom",
        "section 5.2",
        ("hybrid-vit", "hybrid-vip", "hybrid-vil", "hybrid-vin"),
        ("vit", "vip", "vil", "vin"),
    ),
    beats("convolutions in front help FNet", "section 5.2", "hybrid-fnet", "fnet"),
    beats(
        "convolutions in front do not help MLP-Mixer",
        "section 6",
        "hybrid-mixer",
        "mixer",
        says="not above",
        note="Its own table has +1.25 points, which its section 5.2 calls marginal.",
    ),
    beats(
        "convolutions in front help ViT, Performer, Linformer, Nystrom and FNet",
        "section 5.2",
        ("hybrid-vit", "hybrid-vip", "hybrid-vil", "hybrid-vin", "hybrid-fnet"),
        ("vit", "vip", "vil", "vin", "fnet"),
        TINY,
    ),
    beats(
        "convolutions in front help MLP-Mixer",
        "section 5.2",
        "hybrid-mixer",
        "mixer",
        TINY,
        note="Its conclusion says that Mixer does not gain.",
    ),
    beats(
        "behind convolutions Performer beats exact attention",
        "section 5.2",
        "hybrid-vip",
        "hybrid-vit",
        note="Its text says so of all X-formers; in its own table Linformer is 10.77 points below.",
    ),
    beats("behind convolutions Nystrom beats exact attention", "section 5.2", "hybrid-vin", "hybrid-vit"),
    beats(
        "behind convolutions Performer and Nystrom are as good as exact attention",
        "section 5.2",
        ("hybrid-vip", "hybrid-vin"),
        "hybrid-vit",
        TINY,
        "not below",
    ),
)
SWAPPED = "Its text has 1 % for LeViP and 3 % for LeViN: its own table has them the other way round."
STAGED = (
    beats("LeViP beats LeViT", "section 5.3", "levip", "levit", note=SWAPPED),
    beats("LeViN beats LeViT", "section 5.3", "levin", "levit", note=SWAPPED),
    beats("CCP and CCN beat CCT", "section 5.3", ("ccp", "ccn"), "cct"),
    beats("CvP and CvN beat CvT", "section 5.3", ("cvp", "cvn"), "cvt"),
    beats(
        "PiN and PiP beat PiT",
        "section 5.3",
        ("pin", "pip"),
        "pit",
        note="Behind convolutions its own table has PiP 1.97 points below PiT.",
    ),
    beats("convolutions in front help PiT, PiN and PiP", "section 5.3", ("hybrid-pit", "hybrid-pin", "hybrid-pip"), ("pit", "pin", "pip")),
    beats(
        "LeViP beats LeViT",
        "section 5.3",
        "levip",
        "levit",
        TINY,
        note="Its text has the same trend as on CIFAR-10; of LeViN its own table has 38.28 beside 38.29.",
    ),
    beats("CCP and CCN beat CCT", "section 5.3", ("ccp", "ccn"), "cct", TINY),
    beats("CvP and CvN beat CvT", "section 5.3", ("cvp", "cvn"), "cvt", TINY),
)
GAINS = {"vit": EXACT_FIRST, "vip": "", "vil": "Its own table has Linformer lose 1.57 points.", "vin": ""}
HYBRID_GAINS = {"vit": "", "vip": "", "vil": "", "vin": "Its own table has hybrid Nystrom lose 0.88 points."}
ROTARY = (
    *(beats(f"rotary positions help {KIN[row]}", "section 5.4", f"{row}-rope", row, note=note) for row, note in GAINS.items()),
    *(
        beats(f"rotary positions help hybrid {KIN[row]}", "section 5.4", f"hybrid-{row}-rope", f"hybrid-{row}", note=note)
        for row, note in HYBRID_GAINS.items()
    ),
    beats(
        "rotary positions help LeViT, CCT, CvT and PiT",
        "section 6",
        ("levit-rope", "cct-rope", "cvt-rope", "pit-rope"),
        ("levit", "cct", "cvt", "pit"),
        note="It prints no figure.",
    ),
)
MEMORY = (
    memory("ViP, ViL and ViN", ("vip", "vil", "vin"), "vit", "Its text says less than a third; its own table has 0.35, 0.16 and 0.34."),
    memory("FNet and MLP-Mixer", ("fnet", "mixer"), "vit"),
    memory("LeViP and LeViN", ("levip", "levin"), "levit", "Its text says a third; its own table has 0.35 and 0.31."),
    memory("CCP and CCN", ("ccp", "ccn"), "cct"),
    memory("CvP and CvN", ("cvp", "cvn"), "cvt", "Its text says a third; its own table has 0.38 and 0.34."),
    memory("PiN and PiP", ("pin", "pip"), "pit", "Its text says a third; its own table has 0.39 and 0.35."),
)


def table(number: int, about: str, data: str, *names: str) -> Exhibit:
    return Exhibit("table", number, about, rows(*names, data=data), COLUMNS, base=rows(names[0], data=data)[0], draws=("pareto-memory",))


ALL = ("vit", "vip", "vil", "vin", "fnet", "mixer", "hybrid-vit", "hybrid-vip", "hybrid-vil", "hybrid-vin", "hybrid-fnet", "hybrid-mixer")
STAGES = ("levit", "levip", "levil", "levin", "cct", "ccp", "ccl", "ccn", "cvt", "cvp", "cvl", "cvn")
EXHIBITS = (
    table(1, "ViT with other attention, with and without convolutions in front, on CIFAR-10", CIFAR, *ALL),
    table(2, "The same on Tiny ImageNet", TINY, *ALL),
    table(3, "LeViT, CCT and CvT with other attention on CIFAR-10", CIFAR, *STAGES),
    table(4, "The same on Tiny ImageNet", TINY, *STAGES),
    table(5, "PiT with other attention on CIFAR-10", CIFAR, "pit", "pin", "pip", "hybrid-pit", "hybrid-pin", "hybrid-pip"),
    table(6, "Rotary positions on CIFAR-10", CIFAR, *(f"{hybrid}{row}-rope" for hybrid in ("", "hybrid-") for row in GAINS)),
    Exhibit("figure", 4, "Accuracy against memory, by size", rows(*ALL), draws=("pareto",)),
)

NAMES = (
    *named(
        "system",
        Named("ViT, ViP, ViL, ViN", "section 3", tuple(f"recipe xformers/cifar10/{row}" for row in ("vit", "vip", "vil", "vin"))),
        Named("Performer, Linformer, Nystromformer", "section 2.2", ("word performer", "word linformer", "word nystrom")),
        Named("Linear Transformer", "section 2.2", ("word performer(kernel=elu, features=none)",), "Cited there, not tested"),
        Named("FNet", "section 2.5", ("recipe xformers/cifar10/fnet", "word fourier")),
        Named("MLP-Mixer", "section 2.5", ("recipe xformers/cifar10/mixer", "word mlp")),
        Named("convolutions in front (hybrid)", "section 3", ("recipe xformers/cifar10/hybrid-*", "option vit.stem")),
        Named("LeViT and LeViX", "section 3", ("model levit", "recipe xformers/cifar10/lev*")),
        Named(
            "LeViT without its bias of positions",
            "section 3",
            ("option levit.attention_bias",),
            "Off in all rows, as there",
        ),
        Named("CCT and CCX", "section 3", ("model cct", "recipe xformers/cifar10/cc*")),
        Named("CvT and CvX", "section 3", ("model cvt", "recipe xformers/cifar10/cv*")),
        Named("PiT, PiX and hybrid PiX", "section 3", ("model pit", "recipe xformers/cifar10/*pi*"), "It has no Linformer row of PiT"),
        Named("rotary positions", "section 2.4", ("recipe xformers/cifar10/*-rope", "option vit.pos")),
        Named(
            "FNet over channels, rows and columns",
            "public code",
            ("recipe xformers/cifar10/fnet2d", "word fourier(grid=true)"),
            "In its code alone, without a row",
        ),
        Named(
            "Performer with ReLU features and a local window of 256",
            "section 4",
            ("word performer(local_heads=2, window=256)", "recipe xformers/cifar10/vip-adam", "recipe xformers/cifar10/vip-relu"),
            "Its code left both unused: its rows have softmax features and no window, and so `xformers/*`; `-adam` follows the text",
        ),
        Named("memory-efficient exact attention", "public code", ("word softmax",), "Torch's fused attention is that"),
    ),
    *named(
        "data",
        Named("CIFAR-10, a token a pixel", "section 4", ("data cifar10", "recipe xformers/cifar10/vit")),
        Named(
            "Tiny ImageNet, patches or strides of 2",
            "section 4",
            ("data tiny-imagenet", "recipe xformers/tiny-imagenet/vit"),
            "200 classes where the whole set is; a part of 20 classes here",
        ),
        Named("normalization by 0.5", "public code", ("option data.mean", "option data.std")),
    ),
    *named(
        "setting",
        Named(
            "width 128, 4 layers, 4 heads, MLP 256, dropout 0",
            "section 4",
            ("option vit.embed_dim", "option vit.depth", "option vit.num_heads", "option vit.mlp_dim", "option vit.drop_rate"),
            "CCT's MLP has 512 and Mixer's 128: its parameter counts need them",
        ),
        Named("64 landmarks (benchmark points)", "section 4", ("word nystrom(landmarks=64)",)),
        Named("one projection for keys and values", "section 4", ("word linformer(rank=64, share=kv)", "option vit.proj")),
        Named("three convolutions of 32, 64 and 128", "section 4", ("option vit.stem",)),
        Named("a single stage of LeViT", "section 4", ("option levit.dims", "option levit.depths")),
        Named(
            "CCT: 3 x 3 kernels, stride 1, learned positions",
            "section 4",
            ("option cct.conv_kernel", "option cct.pool_stride", "option cct.pos"),
        ),
        Named("CvT: 1, 1 and 2 layers", "section 4", ("option cvt.depths", "option cvt.kernels")),
        Named("PiT: down-sampling after two layers", "section 4", ("option pit.depths",)),
        Named(
            "Adam, rate 0.001, weight decay 0.01",
            "section 4",
            ("recipe xformers/cifar10/vit-adam", "option train.weight_decay"),
            "Its public code has AdamW, and so `xformers/*`: it made the tables",
        ),
        Named("40, 100 and 150 epochs", "public code", ("option train.epochs",), "Its text has no number"),
        Named(
            "automatic mixed precision",
            "section 4",
            ("option train.precision", "recipe xformers/cifar10/vit-adam"),
            "In its code the loss alone was inside of autocast: `xformers/*` are float32",
        ),
        Named("batches of 64 for memory", "section 4", ("option train.batch_size",)),
        Named(
            "P100 and T4 GPUs",
            "section 4",
            ("command vix bench",),
            "Two CPU cores here; `--device cuda` is written and was not run",
        ),
    ),
    *named(
        "measure",
        Named("top-1 and top-5", "tables 1 to 6", ("page xformers.md",), "Best of three runs there; mean and interval here"),
        Named("parameters", "tables 1 to 5", ("command vix show",), "Every count is exact; LeViP's 662,410 is a misprint of 622,410"),
        Named("size in MB", "tables 1 to 5", ("page xformers.md",), "Torchsummary's estimate"),
        Named(
            "GPU memory",
            "tables 1 to 6",
            ("tool runs", "word softmax(naive=true)", "page xformers.md"),
            "There is no GPU here: the peak of a training step on a CPU, beside exact attention that keeps its scores (`naive=true`)",
        ),
    ),
    *named(
        "exhibit",
        Named(
            "figures 1 to 3, diagrams of models",
            "section 3",
            ("command vix show", "page ../models.md"),
            "Diagrams: here printouts",
            shows=("figure 1", "figure 2", "figure 3"),
        ),
    ),
    *named(
        "experiment",
        Named("ViX beside ViT", "section 5.1", ("recipe xformers/cifar10/vi?", "recipe xformers/tiny-imagenet/vi?")),
        Named("hybrid ViX beside ViX", "section 5.2", ("recipe xformers/cifar10/hybrid-vi?", "recipe xformers/tiny-imagenet/hybrid-*")),
        Named("other vision transformers", "section 5.3", ("recipe xformers/cifar10/lev*", "recipe xformers/tiny-imagenet/c*")),
        Named("rotary positions", "section 5.4", ("recipe xformers/cifar10/*-rope",)),
        Named(
            "rotary positions in LeViT, CCT, CvT and PiT",
            "section 6",
            tuple(f"recipe xformers/cifar10/{row}-rope" for row in ("levit", "cct", "cvt", "pit")),
            "It prints no figure",
        ),
    ),
    *named(
        "outlook",
        Named("tuning of hyperparameters", "section 6", ("command vix search",)),
        Named("other positions", "section 6", ("option vit.pos",)),
        Named("other mixing models", "section 6", ("word hedgehog", "word lens", "word cosine", "word focused")),
        Named("other image sets and tasks", "section 6", ("data folder", "data hub"), "Classification of any folder of images"),
        Named("deeper models in the same memory", "section 5.1", ("option vit.depth", "command vix search")),
        Named("higher resolution with small patches", "section 5.2", ("option data.resize", "command vix advise")),
    ),
)

DOCUMENT = Document(
    name="xformers",
    title="Vision Xformers: Efficient Attention for Image Classification",
    year=2021,
    top1="top1",
    exhibits=EXHIBITS,
    claims=(*PLAIN, *CONVOLUTIONS, *STAGED, *ROTARY, *MEMORY),
    names=NAMES,
    tables=6,
    figures=4,
)
