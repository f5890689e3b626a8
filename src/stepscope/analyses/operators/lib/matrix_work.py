"""Work of matrix products: 2·m·n·k FLOPs, the addend not counted; bytes of both factors, addend and result.

These are the FLOPs that torch.utils.flop_counter counts. A factor that is a view which repeats elements counts in full.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

from stepscope.analyses.operators.lib.recorded_calls import Call, Tensor, Unknown, Work, traffic

__all__ = ["MATRIX_PRODUCTS"]


def _product(
    call: Call, *, left: int, right: int, addend: int | None = None, transposed: bool = False, result: int | None = None
) -> Work:
    """Work of left times right (`transposed`: rows of right are the columns), at these places among the inputs.

    `result` is the place of the result's element type.
    """
    a, b = call.tensor(left), call.tensor(right)
    batch, m, k, k_right, n = _sizes(a.dims, b.dims, transposed=transposed)
    if k != k_right:
        raise Unknown
    kind = a.type if result is None else call.type_at(result, a.type)
    rows = () if len(a.dims) == 1 else (m,)
    columns = () if len(b.dims) == 1 else (n,)
    moved = (a, b, None if addend is None else call.optional(addend), Tensor((*batch, *rows, *columns), kind))
    return Work(flops=2.0 * math.prod(batch) * m * n * k, bytes=traffic(*moved), precision=a.type)


def _sizes(
    left: tuple[int, ...], right: tuple[int, ...], *, transposed: bool
) -> tuple[tuple[int, ...], int, int, int, int]:
    """Shared dimensions of the batch, m and k of the left factor, k and n of the right one."""
    if not left or not right:
        raise Unknown
    m, k = (1, left[0]) if len(left) == 1 else left[-2:]
    if len(right) == 1:
        k_right, n = right[0], 1
    else:
        k_right, n = reversed(right[-2:]) if transposed else right[-2:]
    return _broadcast(left[:-2], right[:-2]), m, k, k_right, n


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    length = max(len(left), len(right))
    pairs = zip((1,) * (length - len(left)) + left, (1,) * (length - len(right)) + right, strict=True)
    sizes = []
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise Unknown
        sizes.append(other if one == 1 else one)
    return tuple(sizes)


_TWO = partial(_product, left=0, right=1)
_ADDED = partial(_product, left=1, right=2, addend=0)
_LINEAR = partial(_product, left=0, right=1, addend=2, transposed=True)

MATRIX_PRODUCTS: Mapping[str, Callable[[Call], Work]] = {
    "aten::mm": _TWO,
    "aten::bmm": _TWO,
    "aten::mv": _TWO,
    "aten::dot": _TWO,
    "aten::vdot": _TWO,
    "aten::matmul": _TWO,
    "aten::_int_mm": _TWO,
    "aten::addmm": _ADDED,
    "aten::addmm_": _ADDED,
    "aten::_addmm_activation": _ADDED,
    "aten::addmv": _ADDED,
    "aten::addmv_": _ADDED,
    "aten::baddbmm": _ADDED,
    "aten::baddbmm_": _ADDED,
    "aten::linear": _LINEAR,
    "aten::mkldnn_linear": _LINEAR,
    "aten::_scaled_mm": partial(_product, left=0, right=1, addend=4, result=6),
}
"""What each operator does, by its name."""
