"""What a collective is called: by the process group's arguments, by torch's annotation, or by its kernel."""

import re

from stepscope.core.communication import communication_name

__all__ = ["ELEMENT_BYTES", "POINT_TO_POINT", "SYMMETRIC", "UNEVEN", "collective_kind", "kernel_kind"]

# Looked for in this order in the name without underscores: an all-to-all of unequal splits is also an all-to-all.
_KINDS = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoallv", "all_to_allv"),
    ("alltoall", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("send", "send"),
    ("recv", "recv"),
)
_BACKEND = re.compile(
    r"^(?:ncclDevKernel|ncclKernel|ncclAllReduceRingLLKernel|[nrhxm]ccl|gloo|ucc|c10d)[_:]*", re.IGNORECASE
)

SYMMETRIC = ("all_reduce", "all_gather", "reduce_scatter", "barrier")
"""Every rank's result needs every rank's input, so none of them can end before the last has begun.

A broadcast or a reduction to one rank binds one way only, and an all-to-all may move nothing between two ranks.
"""

POINT_TO_POINT = ("send", "recv", "send_recv")
"""Between two ranks of a group; NCCL's SendRecv kernel without arguments may also be an all-to-all."""

UNEVEN = ("all_to_all", "all_to_allv", "dispatch", "combine", "gather", "scatter")
"""Element counts may differ from rank to rank; dispatch and combine move the tokens of a mixture of experts."""

ELEMENT_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8", "signed char", "unsigned char"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16", "c10::half", "c10::bfloat16"), 2),
    **dict.fromkeys(("float", "int", "float32", "int32"), 4),
    **dict.fromkeys(("double", "long", "long int", "float64", "int64", "complexfloat", "c10::complex<float>"), 8),
    **dict.fromkeys(("complexdouble", "c10::complex<double>"), 16),
}
"""Bytes of an element, by torch's names for types in lower case."""

# What torch calls an operation that is several at once, or none; only the kernel tells what it does.
_SAYS_NOTHING = ("coalesced", "wait", "record_param_comms")


def collective_kind(name: str) -> str | None:
    """The collective that an argument or annotation stands for: `allreduce_coalesced` and `nccl:all_reduce` are one.

    None where it says nothing (`nccl:coalesced`); a name that is not known stays as it is written.
    """
    kind = _told(name)
    if kind is None and "kernel" not in name.lower():
        plain = _BACKEND.sub("", name)
        return plain if plain and plain not in _SAYS_NOTHING else None
    return kind


def kernel_kind(name: str) -> str | None:
    """The collective that the name of a kernel tells; None where it tells nothing."""
    family = communication_name(name)
    return family.collective if family is not None and family.collective else _told(name)


def _told(name: str) -> str | None:
    plain = name.replace("(anonymous namespace)::", "").partition("(")[0].replace("_", "").lower()
    return next((kind for mark, kind in _KINDS if mark in plain), None)
