"""Tensor cores (NVIDIA) and matrix cores (AMD): which kernels use them, and which operators could.

What the names tell lies in `tensor_cores.toml` beside this module, from Volta to Blackwell and CDNA, read once.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Family", "could_use_tensor_cores", "families", "uses_tensor_cores"]

_NAMES = Path(__file__).with_name("tensor_cores.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Patterns that tell one thing, and names of real kernels or operators that they were written for."""

    name: str
    patterns: tuple[str, ...]
    examples: tuple[str, ...]


def uses_tensor_cores(kernel: str) -> bool:
    """Whether a kernel uses tensor cores (NVIDIA) or matrix cores (AMD), as far as its name tells."""
    matrix, scalar, _ = _compiled()
    return matrix.search(kernel) is not None and scalar.search(kernel) is None


def could_use_tensor_cores(operator: str) -> bool:
    """Whether an operator multiplies matrices, so that suitable types and shapes put it on such cores."""
    return _compiled()[2].fullmatch(operator) is not None


@cache
def families() -> dict[str, tuple[Family, ...]]:
    """All families by what they tell: kernels, scalar (kernels that do not after all) and operators."""
    table = tomllib.loads(_NAMES.read_text(encoding="utf-8"))
    kernels = tuple(_family(entry.pop("family"), entry) for entry in table["kernels"])
    return {"kernels": kernels, **{part: (_family(part, table[part]),) for part in ("scalar", "operators")}}


def _family(name: str, entry: dict[str, list[str]]) -> Family:
    return Family(name=name, patterns=tuple(entry["patterns"]), examples=tuple(entry["examples"]))


@cache
def _compiled() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    kernels, scalar, operators = (_any(families()[part]) for part in ("kernels", "scalar", "operators"))
    return kernels, scalar, operators


def _any(group: tuple[Family, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for family in group for pattern in family.patterns))
