"""Operations on q, k and v, each beside its slow reference. The only home of speed: nobody else knows that compiled
kernels exist."""

from vixformer.ops.affine import linear, linear_slow
from vixformer.ops.checkpoint import recompute
from vixformer.ops.choice import eager, portable, prepare, room
from vixformer.ops.compiled import compiled
from vixformer.ops.convolution import Grid, add_convolution, add_convolution_slow
from vixformer.ops.feature_attention import feature_attention, linear_attention_macs, linear_weights
from vixformer.ops.feature_maps import (
    CoshMap,
    CosineMap,
    EluMap,
    ExpMap,
    FeatureMap,
    FocusedMap,
    GeluMap,
    HedgehogMap,
    MatrixMap,
    NetworkMap,
    ReluMap,
    SharesMap,
    TaylorMap,
    orthogonal_rows,
    softmax_features,
    stable_exp,
)
from vixformer.ops.fourier import fourier_mix, fourier_mix_slow
from vixformer.ops.fused import linear_attention, linear_attention_slow
from vixformer.ops.linformer import linformer_attention, linformer_attention_slow, linformer_weights
from vixformer.ops.nystrom import nystrom_attention, nystrom_attention_slow, nystrom_weights
from vixformer.ops.operation import Context, applied
from vixformer.ops.precision import wide, widest
from vixformer.ops.rotary import Rotation, check_rotation, rotate, split_heads
from vixformer.ops.softmax import softmax_attention, softmax_attention_slow, softmax_weights
from vixformer.ops.tokenwise import gelu, gelu_slow, layer_norm, layer_norm_slow
from vixformer.ops.window import window_attention, window_attention_macs, window_weights

__all__ = [
    "Context", "CoshMap", "CosineMap", "EluMap", "ExpMap", "FeatureMap", "FocusedMap", "GeluMap", "Grid",
    "HedgehogMap", "MatrixMap", "NetworkMap", "ReluMap", "Rotation", "SharesMap", "TaylorMap",
    "add_convolution", "add_convolution_slow", "applied", "check_rotation", "compiled", "eager",
    "feature_attention", "fourier_mix", "fourier_mix_slow", "gelu", "gelu_slow", "layer_norm",
    "layer_norm_slow", "linear", "linear_attention", "linear_attention_macs", "linear_attention_slow",
    "linear_slow", "linear_weights", "linformer_attention", "linformer_attention_slow", "linformer_weights",
    "nystrom_attention", "nystrom_attention_slow", "nystrom_weights", "orthogonal_rows", "portable", "prepare",
    "recompute", "room", "rotate", "softmax_attention", "softmax_attention_slow", "softmax_features",
    "softmax_weights", "split_heads", "stable_exp", "wide", "widest", "window_attention",
    "window_attention_macs", "window_weights",
]  # fmt: skip
