"""xformers/*: "Vision Xformers" (2021), tables 1 to 6: X-former attention in ViT, LeViT, CCT, CvT and PiT, one token a
pixel.

Names follow its rows: vit, vip (Performer), vil (Linformer), vin (Nystromformer), and so on for levit, cct, cvt and
pit; `hybrid-` has three convolutions in front, `-rope` rotary positions. Width 128, depth 4, 4 heads, MLP 256 (CCT 512,
Mixer 128). LeViP's 662,410 parameters are a misprint of 622,410. Projections, head widths and norms differ between its
exact and its linear rows (biases, Linformer's one key-value head, LeViT and CvT), and so they do here.

Text and public code differ, and the recipes follow the code: logs in the history of its repository have the top-1 of
eleven rows to the digit. So AdamW at 1e-3 with weight decay 0.01 on every parameter, a constant rate, no augmentation;
batches as large as its GPU took; 40 epochs (ViT, RoPE, CCT, Mixer), 100 (FNet) or 150 (CCP, CCN, CvP, CvN, LeViP,
LeViN), of which those logs have 9 to 33; float32, because only the loss was inside of autocast; images normalized by
0.5, those of Tiny ImageNet by their own mean; layer norms with 1e-5; positions that start at 1 (CCT 0.2); random
features that are never redrawn; GELU in the MLPs of LeViP, LeViL and LeViN; 0.1 of stochastic depth in CCT and its kin,
and of the attention weights in CCT alone; full heads whose keys are the values in its rotary Linformers. Performers
have softmax features, 110 of them, and no local head: the ReLU and the window of 256 tokens of its text did nothing.
`vip-relu` has the ReLU, `vip-softmax` is `vip`. Dropout is 0, as in the files that wrote those logs; later ones have
0.25 in ViT and ViN, and 0.5 in rotary ViN. There is no public code of LeViT, LeViL, CCL, CvT, CvL and PiT: epochs and
batches are those of their kin (CvT's batch that of CCT, PiT as ViT). It reports the best test epoch of the best of
three runs.

`-adam` is what its text says, where a recipe can: Adam with L2 0.01, batches of 64, mixed precision, no dropout of any
kind, Performers with ReLU features of which half of the heads (it says not how many) attend in a window of 256, rotary
Linformers with one key-value head.

Its conclusion says that RoPE helped LeViT, CCT, CvT and PiT too, and prints nothing: their `-rope` rows are here.
`fnet2d` is FNet with the transform of FNet2D in its code (channels, rows and columns), which has no row there and no
training file; mean of tokens, no class token.

What they gave here: docs/results/xformers.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vixformer.backbones.cct import CCT
from vixformer.backbones.cvt import CvT
from vixformer.backbones.levit import LeViT
from vixformer.backbones.pit import PiT
from vixformer.backbones.staged import StagedConfig
from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.jsonfile import Values
from vixformer.recipes.catalog import add, add_as_printed

NORMS: Values = dict(norm_eps=1e-5)
VIT = ViT.Config(patch_size=1, embed_dim=128, depth=4, num_heads=4, mlp_dim=256, qkv_bias=False, pos_std=1.0, **NORMS)
LEVIT = LeViT.Config(patch_size=1)
CCT_BASE = CCT.Config(
    embed_dim=128,
    depth=4,
    num_heads=4,
    mlp_dim=512,
    conv_layers=3,
    pool_stride=1,
    drop_path_rate=0.1,
    pos_std=0.2,
    **NORMS,
)
CVT = CvT.Config(
    dims=(128,) * 3,
    num_heads=(4,) * 3,
    mlp_dim=256,
    strides=(1, 1, 1),
    norm="channel",
    head_norm=False,
    proj="linear",
    qkv_bias=False,
    **NORMS,
)
PIT = PiT.Config(patch_size=1, num_heads=(4, 4), mlp_dim=256, pointwise=True, qkv_bias=False, pos_std=1.0, **NORMS)

PERFORMER: Values = dict(attention="performer(features=110)", qkv_bias=True)
LINFORMER: Values = dict(attention="linformer(rank=64, share=kv)", proj="one-kv")
NYSTROM: Values = dict(attention="nystrom(landmarks=64)")
RELU, WINDOW = "performer(kernel=relu, features=110)", "performer(kernel=relu, features=110, local_heads=2, window=256)"


def _kin(base: StagedConfig, exact: StagedConfig | None = None) -> list[StagedConfig]:
    """With exact attention, Performer, Linformer and Nystromformer."""
    return [exact or base, *(replace(base, **options) for options in (PERFORMER, LINFORMER, NYSTROM))]


MODELS: Values = {
    **dict(zip(("vit", "vip", "vil", "vin"), _kin(VIT), strict=True)),
    "fnet": replace(VIT, attention="fourier"),
    "mixer": replace(VIT, attention="mlp", mlp_dim=128, pos="none", pool="mean"),
    **dict(
        zip(
            ("levit", "levip", "levil", "levin"),
            _kin(replace(LEVIT, proj="linear", act="gelu"), exact=LEVIT),
            strict=True,
        )
    ),
    **dict(
        zip(
            ("cct", "ccp", "ccl", "ccn"),
            _kin(CCT_BASE, exact=replace(CCT_BASE, attention="softmax(drop=0.1)")),
            strict=True,
        )
    ),
    **dict(
        zip(
            ("cvt", "cvp", "cvl", "cvn"),
            _kin(CVT, exact=replace(CVT, proj="conv", head_dim=64, shared_kv=True)),
            strict=True,
        )
    ),
    **{name: model for name, model in zip(("pit", "pip", "pil", "pin"), _kin(PIT), strict=True) if name != "pil"},
}
MODELS |= {
    f"hybrid-{name}": replace(MODELS[name], stem="conv")
    for name in MODELS
    if name.startswith(("vi", "fnet", "mixer", "pi"))
}


def _rotary(model: StagedConfig) -> StagedConfig:
    return replace(model, pos="rope", proj="shared-kv" if model.proj == "one-kv" else model.proj)


ROTARY = {f"{name}-rope": _rotary(model) for name, model in MODELS.items() if not name.endswith(("fnet", "mixer"))}
BEYOND = {
    "vip-softmax": MODELS["vip"],
    "vip-relu": replace(MODELS["vip"], attention=RELU),
    "fnet2d": replace(VIT, attention="fourier(grid=true)", pool="mean"),
}
TRAINED = {
    **dict.fromkeys(("vit", "pit"), (40, 64)),
    **dict.fromkeys(("vip", "vin", "pip", "pin"), (40, 128)),
    "vil": (40, 256),
    "mixer": (40, 640),
    "fnet": (100, 512),
    "levit": (150, 64),
    **dict.fromkeys(("levip", "levil", "levin"), (150, 192)),
    "cct": (40, 48),
    "cvt": (150, 48),
    **dict.fromkeys(("ccp", "ccl", "ccn", "cvp", "cvl", "cvn"), (150, 160)),
    **dict.fromkeys(("vip-rope", "vin-rope", "hybrid-vip-rope", "hybrid-vin-rope"), (40, 192)),
    "vil-rope": (40, 320),
}
"""Epochs and batch of a row; `hybrid-` and `-rope` as the row without, but for the last ones."""
MEANS: Values = {
    "cifar10": dict(mean=(0.5,) * 3, std=(0.5,) * 3),
    "tiny-imagenet": dict(mean=(0.4803, 0.4481, 0.3976), std=(0.2764, 0.2689, 0.2816)),
}


def _halved(model: StagedConfig) -> StagedConfig:
    """For images of twice the side, with as many tokens: patches of 2, or a first stride of 2."""
    if isinstance(model, CCT.Config):
        return replace(model, conv_stride=(2, 1, 1))
    return replace(model, strides=(2, 1, 1)) if isinstance(model, CvT.Config) else replace(model, patch_size=2)


def _as_text(model: StagedConfig) -> StagedConfig:
    """The model that its text describes, where that is another one."""
    model = replace(model, drop_path_rate=0.0, proj="one-kv" if model.proj == "shared-kv" else model.proj)
    return replace(
        model,
        attention={PERFORMER["attention"]: WINDOW, "softmax(drop=0.1)": "softmax"}.get(
            model.attention, model.attention
        ),
    )


def xformers(data: str, name: str, model: StagedConfig) -> Recipe:
    """Command: `vix train xformers/cifar10/vip` (and the others)."""
    plain = name.removeprefix("hybrid-").partition("-")[0].removesuffix("2d")
    epochs, batch = TRAINED.get(name) or TRAINED[plain]
    train = Train(
        epochs=epochs,
        batch_size=batch,
        optimizer="adamw",
        lr=1e-3,
        weight_decay=0.01,
        decays="all",
        schedule="constant",
        redraw_every=None,
        track_test=True,
    )
    return Recipe(data=Data(name=data, **MEANS[data]), model=model, train=train)


def as_text(data: str, name: str, model: StagedConfig) -> Recipe:
    """Command: `vix train xformers/cifar10/vip-adam` (and the others)."""
    recipe = xformers(data, name, _as_text(model))
    return replace(recipe, train=replace(recipe.train, optimizer="adam", batch_size=64, precision="float16"))


ROWS = {
    **{f"cifar10/{name}": model for name, model in (MODELS | ROTARY).items()},
    **{f"tiny-imagenet/{name}": _halved(model) for name, model in MODELS.items() if not isinstance(model, PiT.Config)},
}

for _name, _model in ROWS.items():
    add(f"xformers/{_name}", partial(xformers, *_name.split("/"), _model))
add_as_printed("xformers/*")
for _name, _model in ROWS.items():
    add(f"xformers/{_name}-adam", partial(as_text, *_name.split("/"), _model))
for _name, _model in BEYOND.items():
    add(f"xformers/cifar10/{_name}", partial(xformers, "cifar10", _name, _model))
