"""How many samples a batch holds: the way to the answer is found once a loader and then only walked."""

from __future__ import annotations

import sys

from .fields import compiled
from .guards import own_errors

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["UNKNOWN", "counter"]

UNKNOWN = -(1 << 50)
"""Added to a step's samples it keeps the sum negative: the step's count is unknown, never a guess."""

_DEPTH = 3  # a batch nested deeper than dict -> list -> tensor says little about its first axis
_TRIES = 3  # batches looked at before a loader's samples are given up as unknown

_ITEM, _ATTRIBUTE = 0, 1


def counter(use: Any, batch_size: int | None) -> Callable[[Any], int]:
    """A function batch -> samples that learns on the first batches and then puts a quick one into `use.count`."""
    tries = 0

    def learn(batch: Any) -> int:
        nonlocal tries
        tries += 1
        try:
            found = _way(batch, batch_size)
            if found is not None:
                use.count = found
                return found(batch)
        except own_errors():
            pass
        if tries >= _TRIES:
            use.count = _unknown
        return UNKNOWN

    return learn


def _unknown(batch: Any) -> int:
    return UNKNOWN


def _way(batch: Any, batch_size: int | None) -> Callable[[Any], int] | None:
    """The first tensor's length; where the loader's batch size is known, it or the list around it has to agree."""
    first = next(_tensors(batch, ()), None)
    if first is None:
        if isinstance(batch, (list, tuple)) and len(batch) == batch_size:
            return _length_at(())
        return None
    path, tensor = first
    length = int(tensor.shape[0])
    if batch_size is None or length == batch_size:
        return _first_axis(path)
    for depth in range(len(path) - 1, -1, -1):
        around = _walk(batch, path[:depth])
        if isinstance(around, (list, tuple)) and len(around) == batch_size:
            return _length_at(path[:depth])
    lengths = {int(tensor.shape[0]) for _, tensor in _tensors(batch, ())}
    return _first_axis(path) if len(lengths) == 1 and length < batch_size else None


def _tensors(value: Any, path: tuple[tuple[int, Any], ...]) -> Iterator[tuple[tuple[tuple[int, Any], ...], Any]]:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        if len(shape):
            yield path, value
        return
    if len(path) >= _DEPTH:
        return
    for step in _inside(value):
        yield from _tensors(_walk(value, (step,)), (*path, step))


def _inside(value: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(value, (list, tuple)):
        return ((_ITEM, index) for index in range(min(len(value), 8)))
    if isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        return ((_ITEM, key) for key in list(value.keys())[:32])
    fields = getattr(type(value), "__dataclass_fields__", ())
    return ((_ATTRIBUTE, name) for name in fields)


def _walk(value: Any, path: tuple[tuple[int, Any], ...]) -> Any:
    for kind, key in path:
        value = value[key] if kind == _ITEM else getattr(value, key)
    return value


def _first_axis(path: tuple[tuple[int, Any], ...]) -> Callable[[Any], int]:
    """The length of the tensor at `path`; the two commonest paths without a loop."""
    key = path[0][1] if path else None

    def whole(batch: Any) -> int:
        try:
            return batch.shape[0]  # type: ignore[no-any-return]
        except own_errors():
            return UNKNOWN

    def item(batch: Any) -> int:
        try:
            return batch[key].shape[0]  # type: ignore[no-any-return]
        except own_errors():
            return UNKNOWN

    def deep(batch: Any) -> int:
        try:
            return int(_walk(batch, path).shape[0])
        except own_errors():
            return UNKNOWN

    if len(path) > 1 or (path and path[0][0] == _ATTRIBUTE):
        return deep
    if compiled is not None:
        plain = getattr(sys.modules.get("torch"), "Tensor", None)
        return compiled.FirstAxis(plain, *(key for _, key in path))  # type: ignore[no-any-return]
    return item if path else whole


def _length_at(path: tuple[tuple[int, Any], ...]) -> Callable[[Any], int]:
    def count(batch: Any) -> int:
        try:
            return len(_walk(batch, path))
        except own_errors():
            return UNKNOWN

    return count
