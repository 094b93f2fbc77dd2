"""xformers/*: what "Vision Xformers: Efficient Attention for Image Classification" prints and claims."""

from __future__ import annotations

from vixformer.documents.base import Claim, Column, Document, Exhibit, Named
from vixformer.results.evidence import Says

COLUMNS = (
    Column("parameters", "parameters", "parameters_in_modules", 0),
    Column("size_mb", "size, MB", "torchsummary_mb"),
    Column("top1", "top-1", "test_max_top1"),
    Column("top5", "top-5", "test_top5"),
    Column("gpu_gb", "GPU GB", "peak_train_mb"),
)
CIFAR, TINY = "cifar10", "tiny-imagenet"
SETS = {CIFAR: "CIFAR-10", TINY: "Tiny ImageNet"}
EXACT_FIRST = "With rotary positions exact attention leads its group, which turns the ranking without them around."


def rows(*names: str, data: str = CIFAR) -> tuple[str, ...]:
    return tuple(f"xformers/{data}/{name}" for name in names)


def beats(text: str, where: str, one: str, other: str, data: str = CIFAR, says: Says = "above", note: str = "") -> Claim:
    return Claim(f"on {SETS[data]} {text}", where, rows(one, data=data), rows(other, data=data), says, note=note)


def memory(text: str, one: str, other: str, note: str = "") -> Claim:
    return Claim(f"{text} needs less memory", "tables 1 to 5", rows(one), rows(other), "below", "memory", column="gpu_gb", note=note)


PLAIN = (
    beats("Nystrom beats exact attention", "section 5.1", "vin", "vit"),
    beats("Performer beats exact attention", "section 5.1", "vip", "vit"),
    beats("Linformer beats exact attention", "section 5.1", "vil", "vit"),
    beats("FNet is behind exact attention", "section 5.1", "fnet", "vit", says="below"),
    beats("MLP-Mixer beats exact attention", "section 5.1", "mixer", "vit"),
    beats("Nystrom beats exact attention", "section 5.1", "vin", "vit", TINY),
    beats("Performer beats exact attention", "section 5.1", "vip", "vit", TINY),
    beats("Linformer beats exact attention", "section 5.1", "vil", "vit", TINY, note="Its own table has Linformer 2 points below."),
    beats("FNet beats MLP-Mixer", "section 5.1", "fnet", "mixer", TINY),
)
CONVOLUTIONS = (
    *(
        beats(f"convolutions in front help {name}", "section 5.2", f"hybrid-{row}", row)
        for row, name in (("vit", "ViT"), ("vip", "Performer"), ("vil", "Linformer"), ("vin", "Nystrom"), ("fnet", "FNet"))
    ),
    beats(
        "convolutions in front hardly help MLP-Mixer",
        "section 5.2",
        "hybrid-mixer",
        "mixer",
        says="not above",
        note="The text calls its own +1.25 points marginal and then says that there is no gain.",
    ),
    beats(
        "convolutions in front help MLP-Mixer",
        "section 5.2",
        "hybrid-mixer",
        "mixer",
        TINY,
        note="Its conclusion says that Mixer does not gain, and leaves this out.",
    ),
    beats("behind convolutions Performer beats exact attention", "section 5.2", "hybrid-vip", "hybrid-vit"),
    beats("behind convolutions Nystrom beats exact attention", "section 5.2", "hybrid-vin", "hybrid-vit"),
    beats("behind convolutions Performer is as good as exact attention", "section 5.2", "hybrid-vip", "hybrid-vit", TINY, "not below"),
)
STAGED = (
    beats("LeViP beats LeViT", "section 5.3", "levip", "levit", note="The text swaps the gains of LeViP and LeViN."),
    beats("LeViN beats LeViT", "section 5.3", "levin", "levit", note="The text swaps the gains of LeViP and LeViN."),
    *(
        beats(f"{one.upper()} beats {other.upper()}", "section 5.3", one, other)
        for one, other in (("ccp", "cct"), ("ccn", "cct"), ("cvp", "cvt"), ("cvn", "cvt"), ("pin", "pit"), ("pip", "pit"))
    ),
    beats("hybrid PiN beats hybrid PiT", "section 5.3", "hybrid-pin", "hybrid-pit"),
    beats("convolutions in front help PiT", "section 5.3", "hybrid-pit", "pit"),
    *(
        beats(f"{one.upper()} beats {other.upper()}", "section 5.3", one, other, TINY)
        for one, other in (("levip", "levit"), ("ccp", "cct"), ("ccn", "cct"), ("cvp", "cvt"), ("cvn", "cvt"))
    ),
)
GAINS = {"vit": "", "vip": "", "vil": "Its own table has Linformer lose 1.57 points.", "vin": ""}
HYBRID_GAINS = {"vit": "", "vip": "", "vil": "", "vin": "Its own table has hybrid Nystrom lose 0.88 points."}
ROTARY = (
    *(beats(f"rotary positions help {row.upper()}", "section 5.4", f"{row}-rope", row, note=note) for row, note in GAINS.items()),
    *(
        beats(f"rotary positions help hybrid {row.upper()}", "section 5.4", f"hybrid-{row}-rope", f"hybrid-{row}", note=note)
        for row, note in HYBRID_GAINS.items()
    ),
    *(
        beats(f"rotary positions help {row.upper()}", "section 6", f"{row}-rope", row, note="It prints no figure.")
        for row in ("levit", "cct", "cvt", "pit")
    ),
)
MEMORY = (
    memory("Performer", "vip", "vit", "Its text says under a third of ViT's; its own table has 0.35."),
    memory("Linformer", "vil", "vit"),
    memory("Nystrom", "vin", "vit", "Its text says under a third of ViT's; its own table has 0.34."),
    memory("FNet", "fnet", "vit"),
    memory("CCP (beside CCT)", "ccp", "cct"),
    memory("CvP (beside CvT)", "cvp", "cvt"),
)


def table(number: int, about: str, data: str, *names: str) -> Exhibit:
    return Exhibit("table", number, about, rows(*names, data=data), COLUMNS, base=rows(names[0], data=data)[0], draws=("bubbles",))


ALL = ("vit", "vip", "vil", "vin", "fnet", "mixer", "hybrid-vit", "hybrid-vip", "hybrid-vil", "hybrid-vin", "hybrid-fnet", "hybrid-mixer")
KIN = ("levit", "levip", "levil", "levin", "cct", "ccp", "ccl", "ccn", "cvt", "cvp", "cvl", "cvn")
EXHIBITS = (
    table(1, "ViT with other attention, with and without convolutions in front, on CIFAR-10", CIFAR, *ALL),
    table(2, "The same on Tiny ImageNet", TINY, *ALL),
    table(3, "LeViT, CCT and CvT with other attention on CIFAR-10", CIFAR, *KIN),
    table(4, "The same on Tiny ImageNet", TINY, *KIN),
    table(5, "PiT with other attention on CIFAR-10", CIFAR, "pit", "pin", "pip", "hybrid-pit", "hybrid-pin", "hybrid-pip"),
    table(6, "Rotary positions on CIFAR-10", CIFAR, *(f"{hybrid}{row}-rope" for hybrid in ("", "hybrid-") for row in GAINS)),
    Exhibit("figure", 4, "Accuracy against memory, by size", rows(*ALL), draws=("bubbles", "pareto")),
)

NAMES = (
    Named("ViT, ViP, ViL, ViN", "section 3", tuple(f"recipe xformers/cifar10/{row}" for row in ("vit", "vip", "vil", "vin"))),
    Named("FNet and MLP-Mixer", "section 3", ("recipe xformers/cifar10/fnet", "recipe xformers/cifar10/mixer")),
    Named("convolutions in front", "section 3", ("recipe xformers/cifar10/hybrid-*", "option vit.stem")),
    Named("LeViT, CCT, CvT, PiT with other attention", "section 3", tuple(f"model {name}" for name in ("levit", "cct", "cvt", "pit"))),
    Named("rotary positions", "section 5.4", ("recipe xformers/cifar10/*-rope", "option vit.pos")),
    Named(
        "FNet over channels, rows and columns (code alone)", "public code", ("recipe xformers/cifar10/fnet2d", "word fourier(grid=true)")
    ),
    Named(
        "Performer heads with a local window of 256",
        "section 4",
        ("word performer(local_heads=2, window=256)", "recipe xformers/cifar10/vip-adam"),
        "Its code left them unused",
    ),
    Named(
        "64 landmarks, rank 64, one projection for keys and values",
        "section 4",
        ("word nystrom(landmarks=64)", "word linformer(rank=64, share=kv)"),
    ),
    Named("its training files: AdamW, weight decay on everything", "public code", ("recipe xformers/cifar10/vit", "option train.decays")),
    Named("its text: Adam, mixed precision", "section 4", ("recipe xformers/cifar10/vit-adam",)),
    Named(
        "CIFAR-10 and Tiny ImageNet",
        "section 4",
        ("data cifar10", "data tiny-imagenet"),
        "200 classes where the whole set is; a part of 20 classes here",
    ),
    Named(
        "top-1, top-5, parameters, size, memory",
        "tables 1 to 6",
        ("page xformers.md", "command vix show"),
        "Size is torchsummary's estimate",
    ),
    Named(
        "memory of a GPU",
        "tables 1 to 6",
        ("page ../speed.md", "command vix bench"),
        "`--device cuda` is written and was not run: there is no GPU here",
    ),
    Named("figures 1 to 3, diagrams of models", "section 3", ("command vix show",)),
    Named("figure 4, bubbles", "section 5", ("figure bubbles",)),
    Named("memory-efficient exact attention (code alone)", "public code", ("word softmax",), "torch's fused attention is that"),
    Named("tuning", "section 6, outlook", ("command vix search",)),
    Named("other positions and other attention", "section 6, outlook", ("option vit.pos", "word hedgehog", "word lens")),
    Named("other data and tasks", "section 6, outlook", ("data folder",), "Classification of any folder of images"),
)

DOCUMENT = Document(
    name="xformers",
    title="Vision Xformers: Efficient Attention for Image Classification",
    year=2021,
    top1="top1",
    exhibits=EXHIBITS,
    claims=(*PLAIN, *CONVOLUTIONS, *STAGED, *ROTARY, *MEMORY),
    names=NAMES,
)
