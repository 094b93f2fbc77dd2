"""xformers/*: "Vision Xformers" (2021), tables 1 to 6: X-former attention in ViT, LeViT, CCT, CvT and PiT, one token a pixel.

Names follow its rows: vit, vip (Performer), vil (Linformer), vin (Nystromformer), and so on for levit, cct, cvt and pit; `hybrid-` has
three convolutions in front, `-rope` rotary positions. Width 128, depth 4, 4 heads, MLP 256 (CCT 512, Mixer 128), Adam 1e-3, weight decay
0.01, batch 64, mixed precision; it reports the best of three runs, and says neither how many epochs nor which augmentation: 50 and none
here. Its text gives Performer ReLU features and a local window of 256, its code ran the softmax kernel with 110 features and no local
heads, so that the window did nothing: `vip` (ReLU, 110) and `vip-softmax`. LeViP's 662,410 parameters are a misprint of 622,410.
Projections, head widths and norms differ between its exact and its linear rows (biases, Linformer's one key-value head, LeViT and CvT),
and so they do here.

What they gave here: docs/results/xformers.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from vixformer.backbones.cct import CCT
from vixformer.backbones.cvt import CvT
from vixformer.backbones.levit import LeViT
from vixformer.backbones.pit import PiT
from vixformer.backbones.vit import ViT
from vixformer.config import Data, Recipe, Train
from vixformer.recipes.registry import add, add_as_printed

VIT = ViT.Config(patch_size=1, embed_dim=128, depth=4, num_heads=4, mlp_dim=256, qkv_bias=False)
LEVIT = LeViT.Config(patch_size=1)
CCT_BASE = CCT.Config(embed_dim=128, depth=4, num_heads=4, mlp_dim=512, conv_layers=3, pool_stride=1)
CVT = CvT.Config(
    dims=(128,) * 3, num_heads=(4,) * 3, mlp_dim=256, strides=(1, 1, 1), norm="channel", head_norm=False, proj="linear", qkv_bias=False
)
PIT = PiT.Config(patch_size=1, num_heads=(4, 4), mlp_dim=256, pointwise=True, qkv_bias=False)

PERFORMER: dict[str, Any] = dict(attention="performer(kernel=relu, features=110)", qkv_bias=True)
LINFORMER: dict[str, Any] = dict(attention="linformer(rank=64, share=kv)", proj="one-kv")
NYSTROM: dict[str, Any] = dict(attention="nystrom(landmarks=64)")


def _kin(base: Any, exact: Any = None) -> list[Any]:
    """With exact attention, Performer, Linformer and Nystromformer."""
    return [exact or base, *(replace(base, **options) for options in (PERFORMER, LINFORMER, NYSTROM))]


MODELS: dict[str, Any] = {
    **dict(zip(("vit", "vip", "vil", "vin"), _kin(VIT), strict=True)),
    "fnet": replace(VIT, attention="fourier"),
    "mixer": replace(VIT, attention="mlp", mlp_dim=128, pos="none", pool="mean"),
    **dict(zip(("levit", "levip", "levil", "levin"), _kin(replace(LEVIT, proj="linear"), exact=LEVIT), strict=True)),
    **dict(zip(("cct", "ccp", "ccl", "ccn"), _kin(CCT_BASE), strict=True)),
    **dict(zip(("cvt", "cvp", "cvl", "cvn"), _kin(CVT, exact=replace(CVT, proj="conv", head_dim=64, shared_kv=True)), strict=True)),
    **{name: model for name, model in zip(("pit", "pip", "pil", "pin"), _kin(PIT), strict=True) if name != "pil"},
}
MODELS |= {f"hybrid-{name}": replace(MODELS[name], stem="conv") for name in MODELS if name.startswith(("vi", "fnet", "mixer", "pi"))}
ROTARY = {
    f"{hybrid}{name}-rope": replace(MODELS[hybrid + name], pos="rope")
    for hybrid in ("", "hybrid-")
    for name in ("vit", "vip", "vil", "vin")
}


def _halved(model: Any) -> Any:
    """For images of twice the side, with as many tokens: patches of 2, or a first stride of 2."""
    if isinstance(model, CCT.Config):
        return replace(model, conv_stride=(2, 1, 1))
    return replace(model, strides=(2, 1, 1)) if isinstance(model, CvT.Config) else replace(model, patch_size=2)


def xformers(data: str, model: Any) -> Recipe:
    """Command: `vix train xformers/cifar10/vip` (and the others)."""
    train = Train(
        epochs=50, batch_size=64, optimizer="adam", lr=1e-3, weight_decay=0.01, schedule="constant", precision="float16", track_test=True
    )
    return Recipe(data=Data(name=data), model=model, train=train)


for _name, _model in {**MODELS, **ROTARY, "vip-softmax": replace(MODELS["vip"], attention="performer(features=110)")}.items():
    add(f"xformers/cifar10/{_name}", partial(xformers, "cifar10", _model))
for _name, _model in MODELS.items():
    if not isinstance(_model, PiT.Config):
        add(f"xformers/tiny-imagenet/{_name}", partial(xformers, "tiny-imagenet", _halved(_model)))
add_as_printed("xformers/*")
