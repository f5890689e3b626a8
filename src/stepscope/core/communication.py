"""What names tell of communication between devices: of kernels, and of the operators that launch them.

The names, and where each is from, are in communication.json beside this module. A library that is not listed there is
recognized by the arguments of its events or by the operator that launches it, if at all.
"""

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

__all__ = [
    "COMMUNICATION_OPERATOR",
    "COMPUTING_OPERATOR",
    "CommunicationName",
    "communication_name",
    "computes",
    "is_communication",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationName:
    """A family of names of kernels. `collective` is what all of them do; None where the rest of the name tells it."""

    library: str
    pattern: re.Pattern[str]
    collective: str | None


_DATA: dict[str, Any] = json.loads(files("stepscope.core").joinpath("communication.json").read_text(encoding="utf-8"))
_FAMILIES = tuple(
    CommunicationName(library=entry["library"], pattern=re.compile(entry["pattern"]), collective=entry["collective"])
    for entry in _DATA["kernels"]
)
_PREPARING = re.compile(_DATA["computing_kernels"]["pattern"])
_COMPUTING = re.compile(_DATA["computing_libraries"]["pattern"])

COMMUNICATION_OPERATOR: str = "|".join(entry["pattern"] for entry in _DATA["operators"])
"""Regular expression of operators and annotations whose own kernels communicate; also for Polars."""

COMPUTING_OPERATOR: str = _DATA["computing_operators"]["pattern"]
"""Regular expression of operators among them that compute as well, so that only their kernels' names tell."""


def communication_name(kernel: str) -> CommunicationName | None:
    """The family that the name of a kernel is of; None if it tells of no communication."""
    if _prepares(kernel):
        return None
    return next((family for family in _FAMILIES if family.pattern.search(kernel)), None)


def is_communication(kernel: str) -> bool:
    """Whether a kernel communicates, by its name alone."""
    return communication_name(kernel) is not None


def computes(kernel: str) -> bool:
    """Whether the name of a kernel tells that it computes, whatever operator launches it."""
    return not is_communication(kernel) and (_prepares(kernel) or _COMPUTING.search(kernel) is not None)


def _prepares(kernel: str) -> bool:
    """Whether a kernel computes although an operator of communication launches it or its name holds a collective's."""
    return _PREPARING.search(kernel) is not None
