"""The longest common subsequence of two sequences of small numbers, in time that stays small for tens of thousands.

A row of the table of lengths is one number of as many bits as the first sequence has items: a bit is 0 where the length
grows (Allison and Dix 1986; Hyyrö 2004). One addition moves on by an item of the second sequence, 64 items of the
first at a time. Where the rows would need too much memory, the sequences are cut in two first (Hirschberg 1975).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Pairs", "common"]

Pairs = list[tuple[int, int]]
_LARGEST_TABLE = 2**28  # bits: rows of 32 MB are kept to walk back through
Places = Sequence[int]


def common(a: Sequence[int], b: Sequence[int]) -> Pairs:
    """Places (in a, in b) of a longest common subsequence, in order; alike beginnings and ends are common."""
    shorter = min(len(a), len(b))
    first = next((place for place in range(shorter) if a[place] != b[place]), shorter)
    last = next((back for back in range(shorter - first) if a[-1 - back] != b[-1 - back]), shorter - first)
    pairs = [(place, place) for place in range(first)]
    both = {*a[first : len(a) - last]} & {*b[first : len(b) - last]}
    # An item that the other side lacks is in no common subsequence; most of what was replaced as a whole goes here.
    at_a, at_b = ([place for place in range(first, len(side) - last) if side[place] in both] for side in (a, b))
    if at_a and at_b:
        pairs += _longest(a, b, at_a, at_b)
    return pairs + [(len(a) - back, len(b) - back) for back in range(last, 0, -1)]


def _longest(a: Sequence[int], b: Sequence[int], at_a: Places, at_b: Places) -> Pairs:
    if len(at_a) * len(at_b) <= _LARGEST_TABLE or len(at_b) < 2:
        return _walked(a, b, at_a, at_b)
    middle = len(at_b) // 2
    before = _lengths(_rows([a[place] for place in at_a], [b[place] for place in at_b[:middle]])[-1], len(at_a))
    backwards = [a[place] for place in reversed(at_a)], [b[place] for place in reversed(at_b[middle:])]
    cut = int((before + _lengths(_rows(*backwards)[-1], len(at_a))[::-1]).argmax())
    halves = (at_a[:cut], at_b[:middle]), (at_a[cut:], at_b[middle:])
    return [pair for half in halves if all(half) for pair in _longest(a, b, *half)]


def _walked(a: Sequence[int], b: Sequence[int], at_a: Places, at_b: Places) -> Pairs:
    """Walk back through the table from its end."""
    rows = _rows([a[place] for place in at_a], [b[place] for place in at_b], keep=True)
    pairs: Pairs = []
    i, j = len(at_a) - 1, len(at_b)
    while i >= 0 and j > 0:
        if rows[j] >> i & 1:
            i -= 1
        elif not rows[j - 1] >> i & 1:
            j -= 1
        else:
            pairs.append((at_a[i], at_b[j - 1]))
            i, j = i - 1, j - 1
    return pairs[::-1]


def _rows(a: Sequence[int], b: Sequence[int], *, keep: bool = False) -> list[int]:
    """The rows of the table after each item of b, the one before all first; only the last unless they are to `keep`."""
    places: dict[int, int] = {}
    for place, item in enumerate(a):
        places[item] = places.get(item, 0) | 1 << place
    every = (1 << len(a)) - 1
    row, rows = every, [every]
    for item in b:
        grown = row & places.get(item, 0)
        row = (row + grown | row - grown) & every
        if keep:
            rows.append(row)
    return rows if keep else [row]


def _lengths(row: int, count: int) -> npt.NDArray[np.int64]:
    """Lengths of the longest common subsequences with the first 0, 1, … `count` items of a."""
    packed = np.frombuffer(row.to_bytes(-(-count // 8), "little"), dtype=np.uint8)
    grows = 1 - np.unpackbits(packed, bitorder="little")[:count].astype(np.int64)
    return np.concatenate(([0], np.cumsum(grows)))
