"""Stacked bars in whole cells or pixels: parts that fill a width exactly."""

from collections.abc import Sequence
from itertools import cycle

__all__ = ["cells", "looks", "shares"]


_FIXED = {
    "data wait": 0, "computing": 1, "kernels": 1, "operators": 1, "fetching": 1, "training": 2, "blocked": 3,
    "Python and file I/O": 4, "communication": 5, "copies": 3, "serializing and sending": 4,
    "idle, out of order": 5, "waiting for a core": 6,
    "idle, queue full": -1, "neither": -1, "other": -1, "device idle": -1, "end": -1,
}  # fmt: skip
"""Colors of what is seen in several pictures, -1 the last one; web-app/src/blocks/colors.ts has the same."""


def shares(values: Sequence[float]) -> list[float]:
    """Each value as a part of their sum, 0 to 1; all 0 if the sum is not positive."""
    whole = sum(values)
    return [value / whole if whole > 0 else 0.0 for value in values]


def cells(values: Sequence[float], width: int) -> list[int]:
    """Split `width` in proportion to values that are not negative. The parts add up to `width`.

    What is left after rounding down goes to the largest remainders; a value above zero gets a cell if there is room.
    """
    parts = [share * width for share in shares(values)]
    if not any(parts):
        return [0] * len(parts)
    result = [max(int(part), 1) if value > 0 else 0 for part, value in zip(parts, values, strict=True)]
    by_remainder = sorted(range(len(parts)), key=lambda i: result[i] - parts[i])
    while sum(result) < width:
        for i in by_remainder[: width - sum(result)]:
            result[i] += 1
    while sum(result) > width:
        result[result.index(max(result))] -= 1
    return result


def looks(labels: Sequence[str], available: int) -> list[int]:
    """Which of `available` colors each part takes. What has a color of its own looks the same in every picture."""
    own = {_FIXED[label] % available for label in labels if label in _FIXED}
    free = cycle([look for look in range(1, available - 1) if look not in own] or range(1, available - 1))
    return [_FIXED[label] % available if label in _FIXED else next(free) for label in labels]
