"""Work of operators that move more than they compute: element-wise, reductions, normalization, softmax, copies.

FLOPs follow conventions, and memory limits all of these anyway. Element-wise: one for each element of the result
(`addcmul` and its like: three), none for what only compares, selects or copies; transcendental functions count as one.
Reductions: one for each element of the input. Normalization: five for each element with a weight, four without (as
fvcore counts), twice that backward. Softmax: three forward (as TraceLens counts), four backward.
Bytes: every input read once, every output written once; statistics of a few elements for each row are not counted.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from stepscope.analyses.operators.lib.recorded_calls import BYTES, Call, Tensor, Unknown, Work, traffic

__all__ = ["COPIES", "ELEMENTWISE", "EMBEDDINGS", "NORMALIZATIONS", "REDUCTIONS", "SOFTMAX"]

_FRACTIONS = ("float8", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_HALF = ("float16", "bfloat16")
_WITH_WEIGHT, _WITHOUT_WEIGHT = 5, 4
_WITH_TYPE_ONLY = 2  # inputs of sum(x, dtype): the second is no dimension


def _elementwise(call: Call, *, each: int, result: str | None = None) -> Work:
    tensors = call.tensors()
    shape = _broadcast([tensor.dims for tensor in tensors])
    kind = _promoted(tensors)
    moved = traffic(*tensors, Tensor(shape, result or kind))
    return Work(flops=float(each * math.prod(shape)), bytes=moved, precision=kind)


def _listwise(call: Call, *, each: int) -> Work:
    """Operators over lists of tensors, whose types are not recorded."""
    elements = sum(tensor.elements for tensor in call.listed(0))
    if not elements:
        raise Unknown
    return Work(flops=float(each * elements), bytes=None, precision=None)


def _dropout(call: Call) -> Work:
    source = call.tensor(0)
    mask = Tensor(source.dims, "bool")
    return Work(flops=float(source.elements), bytes=traffic(source, source, mask), precision=source.type)


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if not shapes:
        raise Unknown
    length = max(map(len, shapes))
    padded = [(1,) * (length - len(shape)) + shape for shape in shapes]
    sizes = []
    for column in zip(*padded, strict=True):
        larger = {size for size in column if size != 1}
        if len(larger) > 1:
            raise Unknown
        sizes.append(larger.pop() if larger else 1)
    return tuple(sizes)


def _promoted(tensors: Sequence[Tensor]) -> str | None:
    """Type of the result: fractions before whole numbers, then the larger; tensors of no dimension count last."""
    kinds = [tensor.type for tensor in tensors if tensor.dims] or [tensor.type for tensor in tensors]
    if not kinds or None in kinds:
        return None
    known = [kind for kind in kinds if kind is not None]
    return max(known, key=lambda kind: (kind in _FRACTIONS, BYTES[kind], kind))


def _reduction(call: Call, *, dims: int | None, each: int = 1, kept: bool = False, result: str | None = None) -> Work:
    """`dims` is the place of the reduced dimensions; `kept`: the result is as large as the input.

    Of two tensors max and min take the larger and smaller elements.
    """
    if call.optional(1) is not None:
        return _elementwise(call, each=each)
    source = call.tensor(0)
    left = source.elements if kept else source.elements // max(_reduced(call, dims, source), 1)
    moved = traffic(source, Tensor((left,), result or source.type))
    return Work(flops=float(each * source.elements), bytes=moved, precision=source.type)


def _reduced(call: Call, place: int | None, source: Tensor) -> int:
    """How many elements of the input become one."""
    whole = place is None or place >= len(call.dims) or len(call.dims) == _WITH_TYPE_ONLY or not call.has(place)
    if place is None or whole:
        if call.arguments:
            return source.elements
        raise Unknown
    found = call.value(place)
    dims = call.numbers(place, len(found) if isinstance(found, list) else 1)
    if not all(-len(source.dims) <= dim < len(source.dims) for dim in dims):
        raise Unknown
    return math.prod(source.dims[dim] for dim in dims) if dims else source.elements


def _copy(call: Call) -> Work:
    target, source = call.tensor(0), call.tensor(1)
    return Work(flops=0.0, bytes=traffic(target, source), precision=target.type)


def _unsized(call: Call) -> Work:
    """Copies of tensors in lists, whose types no trace records, and of elements chosen by the values of others."""
    first = call.optional(0)
    return Work(flops=0.0, bytes=None, precision=first.type if first else None)


def _fill(call: Call) -> Work:
    target = call.tensor(0)
    return Work(flops=0.0, bytes=traffic(target), precision=target.type)


def _normalization(call: Call, *, weight: int, source: int = 0, gradient: int | None = None) -> Work:
    values, scale = call.tensor(source), call.optional(weight)
    each = _WITHOUT_WEIGHT if scale is None else _WITH_WEIGHT
    if gradient is None:
        moved = traffic(values, values, scale, call.optional(weight + 1) if scale else None)
        return Work(flops=float(each * values.elements), bytes=moved, precision=values.type)
    moved = traffic(values, call.tensor(gradient), values, scale, scale)
    return Work(flops=float(2 * each * values.elements), bytes=moved, precision=values.type)


def _softmax(call: Call) -> Work:
    source = call.tensor(0)
    result = "float32" if source.type in _HALF and call.flag(2) else source.type
    moved = traffic(source, Tensor(source.dims, result))
    return Work(flops=3.0 * source.elements, bytes=moved, precision=source.type)


def _softmax_backward(call: Call) -> Work:
    gradient, output = call.tensor(0), call.tensor(1)
    result = Tensor(output.dims, call.type_at(3, output.type))
    return Work(flops=4.0 * output.elements, bytes=traffic(gradient, output, result), precision=output.type)


def _lookup(call: Call) -> Work:
    rows, places = call.tensor(0), call.tensor(1)
    found = rows.like(*places.dims, *rows.dims[1:])
    return Work(flops=0.0, bytes=traffic(places, found, found), precision=rows.type)


def _selection(call: Call, *, along: bool) -> Work:
    """index_select takes whole slices `along` a dimension, gather single elements."""
    source, places = call.tensor(0), call.tensor(2)
    found = places.elements
    if along:
        (dim,) = call.numbers(1, 1)
        if not -len(source.dims) <= dim < len(source.dims):
            raise Unknown
        found *= source.elements // max(source.dims[dim], 1)
    result = source.like(found)
    return Work(flops=0.0, bytes=traffic(places, result, result), precision=source.type)


def _lookup_backward(call: Call) -> Work:
    gradient, places = call.tensor(0), call.tensor(1)
    (rows,) = call.numbers(2, 1)
    table = gradient.like(rows, *gradient.dims[-1:])
    return Work(flops=float(gradient.elements), bytes=traffic(gradient, places, table), precision=gradient.type)


def _named(names: str) -> list[str]:
    return [f"aten::{name}{end}" for name in names.split() for end in ("", "_")]


_ONE = (
    "add sub rsub mul div neg abs sqrt rsqrt square exp expm1 log log1p log2 sin cos tanh sigmoid relu clamp clamp_min "
    "clamp_max silu gelu pow reciprocal erf softplus leaky_relu hardtanh hardswish hardsigmoid elu mish hardshrink "
    "softshrink log_sigmoid_forward maximum minimum remainder fmod floor ceil round trunc xlogy "
    "threshold_backward gelu_backward silu_backward tanh_backward sigmoid_backward softplus_backward "
    "leaky_relu_backward hardtanh_backward hardswish_backward hardsigmoid_backward elu_backward mish_backward "
    "log_sigmoid_backward native_dropout_backward atan2 nan_to_num hypot logit erfinv"
)
_THREE = "addcmul addcdiv lerp"
_TESTS = "eq ne gt ge lt le logical_and logical_or logical_not logical_xor isnan isinf"
_SELECTIONS = "where masked_fill bitwise_and bitwise_or bitwise_xor bitwise_not sign triu tril"
_LISTS = "add sub mul div neg sqrt reciprocal abs exp clamp_min clamp_max maximum minimum"

ELEMENTWISE: Mapping[str, Callable[[Call], Work]] = {
    **dict.fromkeys(_named(_ONE), partial(_elementwise, each=1)),
    **dict.fromkeys(_named(_THREE), partial(_elementwise, each=3)),
    **dict.fromkeys(_named(_TESTS), partial(_elementwise, each=0, result="bool")),
    **dict.fromkeys(_named(_SELECTIONS), partial(_elementwise, each=0)),
    **{f"aten::_foreach_{name}{end}": partial(_listwise, each=1) for name in _LISTS.split() for end in ("", "_")},
    **{f"aten::_foreach_{name}{end}": partial(_listwise, each=3) for name in _THREE.split() for end in ("", "_")},
    "aten::native_dropout": _dropout,
}
"""What each operator does, by its name; so in the tables that follow."""

REDUCTIONS: Mapping[str, Callable[[Call], Work]] = {
    **{
        f"aten::{name}": partial(_reduction, dims=1) for name in ("sum", "nansum", "mean", "max", "min", "amax", "amin")
    },
    "aten::prod": partial(_reduction, dims=1),
    "aten::any": partial(_reduction, dims=1, result="bool"),
    "aten::all": partial(_reduction, dims=1, result="bool"),
    "aten::argmax": partial(_reduction, dims=1, result="int64"),
    "aten::argmin": partial(_reduction, dims=1, result="int64"),
    "aten::var": partial(_reduction, dims=1, each=3),
    "aten::std": partial(_reduction, dims=1, each=3),
    "aten::var_mean": partial(_reduction, dims=1, each=3),
    "aten::linalg_vector_norm": partial(_reduction, dims=2, each=2),
    "aten::norm": partial(_reduction, dims=2, each=2),
    "aten::cumsum": partial(_reduction, dims=None, kept=True),
    "aten::cumprod": partial(_reduction, dims=None, kept=True),
}
NORMALIZATIONS: Mapping[str, Callable[[Call], Work]] = {
    "aten::native_layer_norm": partial(_normalization, weight=2),
    "aten::_fused_rms_norm": partial(_normalization, weight=2),
    "aten::native_layer_norm_backward": partial(_normalization, gradient=0, source=1, weight=5),
    "aten::_fused_rms_norm_backward": partial(_normalization, gradient=0, source=1, weight=4),
    "aten::native_group_norm_backward": partial(_normalization, gradient=0, source=1, weight=4),
    **{
        f"aten::{name}": partial(_normalization, weight=1)
        for name in ("native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm",
                     "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "miopen_batch_norm",
                     "_batch_norm_no_update")
    },
    "aten::native_batch_norm_backward": partial(_normalization, gradient=0, source=1, weight=2),
    "aten::batch_norm_backward": partial(_normalization, gradient=0, source=1, weight=2),
    "aten::cudnn_batch_norm_backward": partial(_normalization, gradient=1, source=0, weight=2),
    "aten::miopen_batch_norm_backward": partial(_normalization, gradient=1, source=0, weight=2),
}  # fmt: skip
SOFTMAX: Mapping[str, Callable[[Call], Work]] = {
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
}
COPIES: Mapping[str, Callable[[Call], Work]] = {
    "aten::copy_": _copy,
    "aten::fill_": _fill,
    "aten::zero_": _fill,
    "aten::cat": _unsized,
}
EMBEDDINGS: Mapping[str, Callable[[Call], Work]] = {
    "aten::embedding": _lookup,
    "aten::index_select": partial(_selection, along=True),
    "aten::gather": partial(_selection, along=False),
    "aten::index": _unsized,
    "aten::embedding_dense_backward": _lookup_backward,
}
