"""Work of fused attention: two matrix products forward, five backward, of which one repeats the scores.

With s queries, t keys, d channels of queries and keys and e of values, each pair of a query and a key that it sees
costs 2·(d + e) FLOPs forward and 2·(3·d + 2·e) backward, for each head and sample: the FLOPs of
torch.utils.flop_counter, which takes every pair as seen. Here a causal mask leaves s·(s + 1)/2 pairs, where s = t;
where they differ kernels disagree on which corner the mask starts from, and the FLOPs are null. So they are for batches
of packed sequences of different lengths, whose bounds are values of tensors. Additive
masks and the softmax itself are not counted.
Bytes: queries, keys, values and output; backward also the gradients of these four.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from stepscope.analyses.operators.lib.recorded_calls import Call, Tensor, Unknown, Work, traffic

__all__ = ["ATTENTION"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where the queries stand (keys and values follow), the causal flag, and the bounds of packed sequences.

    `layout` is the order of batch, heads, sequence and channels; a causal argument that is a number is one of the mask
    types of the efficient kernels.
    """

    causal: int
    queries: int = 0
    layout: Literal["bhsd", "bshd"] = "bhsd"
    packed: int | None = None
    backward: bool = False


def _attention(call: Call, *, places: _Places) -> Work:
    q, k, v = (call.tensor(places.queries + place) for place in range(3))
    if places.packed is not None and call.optional(places.packed) is not None:
        raise Unknown
    batch, heads, s, d = _ordered(q, places)
    _, _, t, _ = _ordered(k, places)
    _, _, _, e = _ordered(v, places)
    output = q.like(batch, heads, s, e)
    moved = (q, k, v, output, *((q, k, v, output) if places.backward else ()))
    pairs = _pairs(call, places, s, t)
    each = 2.0 * (3 * d + 2 * e if places.backward else d + e)
    flops = None if pairs is None else batch * heads * pairs * each
    return Work(flops=flops, bytes=traffic(*moved), precision=q.type)


def _ordered(tensor: Tensor, places: _Places) -> tuple[int, int, int, int]:
    if len(tensor.dims) != 4:
        raise Unknown
    batch, one, other, channels = tensor.dims
    return (batch, one, other, channels) if places.layout == "bhsd" else (batch, other, one, channels)


def _pairs(call: Call, places: _Places, s: int, t: int) -> float | None:
    """Pairs of a query and a key that it sees; None if that is not known."""
    try:
        causal = call.value(places.causal)
    except Unknown:
        return None
    if not causal:
        return float(s * t)
    return s * (s + 1) / 2 if s == t else None


_SDPA, _SDPA_BACKWARD = "aten::_scaled_dot_product_", partial(_Places, queries=1, backward=True)
_PLACES = {
    _SDPA + "flash_attention": _Places(causal=4),
    _SDPA + "efficient_attention": _Places(causal=6),
    _SDPA + "cudnn_attention": _Places(causal=6),
    _SDPA + "flash_attention_for_cpu": _Places(causal=4),
    _SDPA + "fused_attention_overrideable": _Places(causal=5),
    "aten::_flash_attention_forward": _Places(causal=8, layout="bshd", packed=3),
    "aten::_efficient_attention_forward": _Places(causal=9, layout="bshd", packed=4),
    "aten::_cudnn_attention_forward": _Places(causal=10, packed=4),
    "flash_attn::_flash_attn_forward": _Places(causal=5, layout="bshd"),
    _SDPA + "flash_attention_backward": _SDPA_BACKWARD(causal=11, packed=6),
    _SDPA + "efficient_attention_backward": _SDPA_BACKWARD(causal=11),
    _SDPA + "cudnn_attention_backward": _SDPA_BACKWARD(causal=14, packed=9),
    _SDPA + "flash_attention_for_cpu_backward": _SDPA_BACKWARD(causal=7),
    "aten::_flash_attention_backward": _SDPA_BACKWARD(causal=11, layout="bshd", packed=6),
    "aten::_efficient_attention_backward": _SDPA_BACKWARD(causal=14, layout="bshd", packed=6),
    "flash_attn::_flash_attn_backward": _SDPA_BACKWARD(causal=11, layout="bshd"),
}

ATTENTION: Mapping[str, Callable[[Call], Work]] = {
    name: partial(_attention, places=places) for name, places in _PLACES.items()
}
"""What each operator does, by its name."""
