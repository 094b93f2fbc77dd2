"""Operations on q, k and v, each beside its slow reference. The only home of speed: nobody else knows that compiled kernels exist."""

from vixformer.ops.checkpoint import recompute
from vixformer.ops.features import orthogonal_rows, softmax_features, stable_exp
from vixformer.ops.fourier import fourier_mix, fourier_mix_slow, half_spectrum, unfold
from vixformer.ops.linear import causal_linear_attention, linear_attention, linear_attention_macs, linear_weights
from vixformer.ops.nystrom import iterative_pinv, iterative_pinv_slow, segment_bounds, segment_sums
from vixformer.ops.precision import wide, widest
from vixformer.ops.rotary import Rotation, rotate
from vixformer.ops.softmax import key_mask, softmax_attention, softmax_attention_slow, softmax_weights
from vixformer.ops.watch import room, transformed
from vixformer.ops.window import window_attention, window_attention_macs, window_weights

__all__ = [
    "Rotation", "causal_linear_attention", "fourier_mix", "fourier_mix_slow", "half_spectrum", "iterative_pinv", "iterative_pinv_slow",
    "key_mask", "linear_attention", "linear_attention_macs", "linear_weights", "orthogonal_rows", "recompute", "room", "rotate",
    "segment_bounds", "segment_sums", "softmax_attention", "softmax_attention_slow", "softmax_features", "softmax_weights", "stable_exp",
    "transformed", "unfold", "wide", "widest", "window_attention", "window_attention_macs", "window_weights",
]  # fmt: skip
