"""Calls of operators as a trace records them: the shapes and types of tensors, and the other arguments as text."""

import json
import math
from dataclasses import dataclass

__all__ = ["BYTES", "Call", "Tensor", "Unknown", "Work", "parsed", "traffic"]

_TYPES = {
    "double": "float64",
    "float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Float8_e4m3fn": "float8",
    "Float8_e4m3fnuz": "float8",
    "Float8_e5m2": "float8",
    "Float8_e5m2fnuz": "float8",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "complex<float>": "complex64",
    "complex<double>": "complex128",
}
_SCALAR_TYPES = {0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
                 9: "complex64", 10: "complex128", 11: "bool", 15: "bfloat16", 23: "float8", 24: "float8",
                 25: "float8", 26: "float8"}  # fmt: skip

BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int64": 8, "int32": 4, "int16": 2,
    "int8": 1, "uint8": 1, "bool": 1, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""Bytes of an element of each type."""


_MOST_ELEMENTS = 2**48  # in no memory; larger sizes are damage, and counts of them overflow


class Unknown(Exception):
    """The trace did not record something that a formula needs."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape and element type of a tensor, the type None where it was not recorded."""

    dims: tuple[int, ...]
    type: str | None

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.dims)

    def like(self, *dims: int) -> "Tensor":
        """Another one of the same type. Raises Unknown for one that fits in no memory."""
        if math.prod(size or 1 for size in dims) >= _MOST_ELEMENTS:
            raise Unknown
        return Tensor(dims, self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a call does: FLOPs, bytes of minimal traffic, precision of the inputs; None where unknown."""

    flops: float | None
    bytes: float | None
    precision: str | None


@dataclass(frozen=True, slots=True)
class Call:
    """Inputs of a call by their place: shapes, types as the trace writes them, and other arguments as text.

    `result` is the shape of the output where another call tells it.
    """

    name: str
    dims: tuple[object, ...]
    types: tuple[object, ...]
    arguments: tuple[object, ...]
    result: tuple[int, ...] | None = None

    def optional(self, place: int) -> Tensor | None:
        """The tensor at a place; None if there is none, or something else."""
        if place >= len(self.dims):
            return None
        dims = _sizes(self.dims[place])
        if dims is None:
            return None
        if place >= len(self.types):
            return Tensor(dims, None) if dims else None
        kind = _type(self.types[place])
        return Tensor(dims, kind) if kind else None

    def tensor(self, place: int) -> Tensor:
        """The tensor at a place. Raises Unknown if none was recorded there."""
        found = self.optional(place)
        if found is None:
            raise Unknown
        return found

    def tensors(self) -> list[Tensor]:
        """All tensors, without those in lists."""
        found = (self.optional(place) for place in range(len(self.dims)))
        return [tensor for tensor in found if tensor is not None]

    def listed(self, place: int) -> list[Tensor]:
        """The tensors of a list at a place, whose types no trace records."""
        entry = self.dims[place] if place < len(self.dims) else None
        shapes = [_sizes(one) for one in entry] if isinstance(entry, list) else []
        return [Tensor(shape, None) for shape in shapes if shape is not None]

    def has(self, place: int) -> bool:
        """Whether an argument was given at a place that is not left to its default."""
        return place < len(self.arguments) and self.arguments[place] not in ("", None)

    def value(self, place: int) -> object:
        """An argument that is no tensor: number, bool or list of these. Raises Unknown if it was not recorded."""
        text = self.arguments[place] if place < len(self.arguments) else None
        if not isinstance(text, str) or not text:
            raise Unknown
        try:
            return json.loads(text.replace("True", "true").replace("False", "false"))
        except ValueError:
            raise Unknown from None

    def numbers(self, place: int, count: int) -> tuple[int, ...]:
        """A list of `count` whole numbers; one alone stands for all. Raises Unknown if it was not recorded, or is
        larger than any size."""
        found = self.value(place)
        values = found if isinstance(found, list) else [found]
        if len(values) == 1:
            values = values * count
        if len(values) != count or not all(type(one) is int and abs(one) < _MOST_ELEMENTS for one in values):
            raise Unknown
        return tuple(values)

    def flag(self, place: int) -> bool:
        """A bool. Raises Unknown if it was not recorded."""
        found = self.value(place)
        if not isinstance(found, bool):
            raise Unknown
        return found

    def flags(self, place: int) -> tuple[bool, ...]:
        """A list of bools. Raises Unknown if it was not recorded."""
        found = self.value(place)
        if not isinstance(found, list) or not all(isinstance(one, bool) for one in found):
            raise Unknown
        return tuple(found)

    def type_at(self, place: int, otherwise: str | None) -> str | None:
        """An element type given as an argument, or what it is without one."""
        if not self.has(place):
            return otherwise
        (number,) = self.numbers(place, 1)
        return _SCALAR_TYPES.get(number)


def parsed(name: str, dims: str | None, types: str | None, arguments: str | None) -> Call:
    """A call from the columns `input_dims`, `input_types` and `concrete_inputs` of `host`."""
    return Call(name, _entries(dims), _entries(types), _entries(arguments))


def traffic(*tensors: Tensor | None) -> float | None:
    """Bytes of all these tensors, each moved once; None if a type is not known."""
    total = 0
    for tensor in tensors:
        if tensor is not None:
            if tensor.type is None:
                return None
            total += tensor.elements * BYTES[tensor.type]
    return float(total)


def _entries(text: str | None) -> tuple[object, ...]:
    try:
        found = json.loads(text) if text else ()
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, list) else ()


def _sizes(entry: object) -> tuple[int, ...] | None:
    if not isinstance(entry, list) or not all(type(size) is int and size >= 0 for size in entry):
        return None
    return tuple(entry) if math.prod(size or 1 for size in entry) < _MOST_ELEMENTS else None


def _type(text: object) -> str | None:
    return _TYPES.get(text.removeprefix("c10::")) if isinstance(text, str) else None
