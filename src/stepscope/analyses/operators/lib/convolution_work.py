"""Work of convolutions: 2 FLOPs for each weight at each place of the output (of the input, where transposed).

Backward does as much for the gradient of the input and again for that of the weight, where they are asked for. The bias
is not counted. These are the FLOPs of torch.utils.flop_counter, but for the weight's gradient of grouped convolutions,
of which that counts all groups with all channels. Bytes: input, weight, bias and output, or their gradients.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from stepscope.analyses.operators.lib.recorded_calls import Call, Tensor, Unknown, Work, traffic

__all__ = ["CONVOLUTIONS", "INPUTS_OF_CALLER", "results_of_convolutions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where the arguments of a forward operator stand; None: it has none, and the default holds."""

    stride: int
    padding: int
    dilation: int | None
    bias: int | None = 2
    transposed: int | None = None
    output_padding: int | None = None
    groups: int | None = None
    is_transposed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Backward:
    """Where the tensors of a backward operator stand, and which gradients it computes: `mask` is an argument."""

    input: int
    gradient: int
    mask: int | None = None
    transposed: int | None = None
    wanted: tuple[bool, bool] | None = None


def _forward(call: Call, *, places: _Places) -> Work:
    source, weight = call.tensor(0), call.tensor(1)
    bias = None if places.bias is None else call.optional(places.bias)
    axes = len(weight.dims) - 2
    if axes < 1 or len(source.dims) != len(weight.dims):
        raise Unknown
    transposed = places.is_transposed or (places.transposed is not None and call.flag(places.transposed))
    result = call.result or _result(call, places, source, weight, transposed=transposed)
    if min(result) < 0:
        raise Unknown
    output = source.like(*result)
    spatial = source.dims[2:] if transposed else result[2:]
    flops = 2.0 * source.dims[0] * weight.elements * math.prod(spatial)
    return Work(flops=flops, bytes=traffic(source, weight, bias, output), precision=source.type)


def _result(call: Call, places: _Places, source: Tensor, weight: Tensor, *, transposed: bool) -> tuple[int, ...]:
    axes = len(weight.dims) - 2
    stride, padding = call.numbers(places.stride, axes), call.numbers(places.padding, axes)
    dilation = (1,) * axes if places.dilation is None else call.numbers(places.dilation, axes)
    if min(stride) < 1:
        raise Unknown
    reach = [spread * (kernel - 1) for spread, kernel in zip(dilation, weight.dims[2:], strict=True)]
    sizes = source.dims[2:]
    if not transposed:
        each = zip(sizes, stride, padding, reach, strict=True)
        return (source.dims[0], weight.dims[0], *((n + 2 * pad - far - 1) // step + 1 for n, step, pad, far in each))
    if places.output_padding is None or places.groups is None:
        raise Unknown
    extra = call.numbers(places.output_padding, axes)
    (groups,) = call.numbers(places.groups, 1)
    each_way = zip(sizes, stride, padding, reach, extra, strict=True)
    grown = ((n - 1) * step - 2 * pad + far + more + 1 for n, step, pad, far, more in each_way)
    return (source.dims[0], weight.dims[1] * groups, *grown)


def _backward(call: Call, *, places: _Backward) -> Work:
    source, gradient, weight = call.tensor(places.input), call.tensor(places.gradient), call.tensor(2)
    transposed = places.transposed is not None and call.has(places.transposed) and call.flag(places.transposed)
    if len(gradient.dims) != len(weight.dims) or len(weight.dims) < 3:
        raise Unknown
    of_input, of_weight = places.wanted or _wanted(call, places.mask)
    spatial = source.dims[2:] if transposed else gradient.dims[2:]
    each = 2.0 * source.dims[0] * weight.elements * math.prod(spatial)
    moved: list[Tensor] = [gradient] if of_input or of_weight else []
    moved += [weight, source] if of_input else []
    moved += [source, weight] if of_weight else []
    return Work(flops=each * (of_input + of_weight), bytes=traffic(*moved), precision=gradient.type)


def _wanted(call: Call, mask: int | None) -> tuple[bool, bool]:
    if mask is None:
        raise Unknown
    flags = call.flags(mask)
    if len(flags) < 2:
        raise Unknown
    return flags[0], flags[1]


def results_of_convolutions(calls: Iterable[Call]) -> dict[tuple[object, object], tuple[int, ...]]:
    """Shapes of outputs by those of input and weight, as the gradients of the same convolutions have them.

    For traces without the arguments of operators. Pairs that occur with several outputs are left out.
    """
    found: dict[tuple[object, object], set[tuple[int, ...]]] = {}
    for call in calls:
        places = _BACKWARD.get(call.name)
        if places is not None:
            source, gradient, weight = (call.optional(place) for place in (places.input, places.gradient, 2))
            if source and gradient and weight:
                found.setdefault((source.dims, weight.dims), set()).add(gradient.dims)
    return {pair: next(iter(results)) for pair, results in found.items() if len(results) == 1}


_GENERAL = _Places(stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8)
_PADDED_FIRST = _Places(padding=3, stride=4, dilation=5)
_WITH_KERNEL = _Places(bias=3, stride=4, padding=5, dilation=6)
_UNDILATED = _Places(bias=3, stride=4, padding=5, dilation=None)
_FORWARD = {
    "aten::convolution": _GENERAL,
    "aten::_convolution": _GENERAL,
    "aten::convolution_overrideable": _GENERAL,
    "aten::cudnn_convolution": _Places(bias=None, padding=2, stride=3, dilation=4),
    "aten::cudnn_convolution_transpose": _Places(
        bias=None, padding=2, output_padding=3, stride=4, dilation=5, groups=6, is_transposed=True
    ),
    "aten::cudnn_convolution_relu": _Places(stride=3, padding=4, dilation=5),
    "aten::cudnn_convolution_add_relu": _Places(bias=4, stride=5, padding=6, dilation=7),
    "aten::miopen_convolution": _PADDED_FIRST,
    "aten::miopen_depthwise_convolution": _PADDED_FIRST,
    "aten::miopen_convolution_relu": _Places(stride=3, padding=4, dilation=5),
    "aten::miopen_convolution_transpose": _Places(
        padding=3, output_padding=4, stride=5, dilation=6, groups=7, is_transposed=True
    ),
    "aten::mkldnn_convolution": _PADDED_FIRST,
    "aten::_conv_depthwise2d": _WITH_KERNEL,
    "aten::conv_depthwise3d": _WITH_KERNEL,
    "aten::slow_conv_dilated2d": _WITH_KERNEL,
    "aten::slow_conv_dilated3d": _WITH_KERNEL,
    "aten::_slow_conv2d_forward": _UNDILATED,
    "aten::slow_conv3d_forward": _UNDILATED,
}
_OF_LIBRARY = _Backward(input=0, gradient=1)
_BACKWARD = {
    "aten::convolution_backward": _Backward(input=1, gradient=0, transposed=7, mask=10),
    "aten::convolution_backward_overrideable": _Backward(input=1, gradient=0, transposed=6, mask=9),
    "aten::cudnn_convolution_backward": _OF_LIBRARY,
    "aten::miopen_convolution_backward": _OF_LIBRARY,
    "aten::mkldnn_convolution_backward": _OF_LIBRARY,
}
_PARTS = {
    f"aten::{library}_convolution_backward_{part}": _Backward(input=0, gradient=1, wanted=wanted)
    for library in ("cudnn", "miopen", "mkldnn")
    for part, wanted in (("input", (True, False)), ("weight", (False, True)), ("weights", (False, True)))
}

INPUTS_OF_CALLER = frozenset(_PARTS)
"""Operators whose own inputs lack a shape, so that their formulas take the inputs of the operator around them."""

CONVOLUTIONS: Mapping[str, Callable[[Call], Work]] = {
    **{name: partial(_forward, places=places) for name, places in _FORWARD.items()},
    **{name: partial(_backward, places=places) for name, places in (_BACKWARD | _PARTS).items()},
}
"""What each operator does, by its name."""
