"""Names of spans as numbers, each with its category, and tracks made of a table."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from stepscope.analyses.lib.host_events import categories, enumerated
from stepscope.timeline.content import Category, Spans, Track
from stepscope.timeline.lanes import Codes, Ints, lanes

__all__ = ["Naming", "named", "spans_of"]

Naming = tuple[Codes, tuple[str, ...], tuple[Category, ...]]
"""The number of the name of each row; names and categories by number."""


def named(name: pl.Series, kind: pl.Series, category_of: Callable[[str, str], Category]) -> Naming:
    """Each distinct pair of name and kind is a name; the category is asked for once."""
    names, kinds = enumerated(name.fill_null("")), enumerated(kind.fill_null(""))
    texts, words = categories(names).to_list(), categories(kinds).to_list()
    pair = names.to_physical().to_numpy().astype(np.int64) * len(words) + kinds.to_physical().to_numpy()
    present = np.flatnonzero(np.bincount(pair, minlength=1))
    number = np.zeros(int(present[-1]) + 1 if len(present) else 1, dtype=np.int32)
    number[present] = np.arange(len(present), dtype=np.int32)
    pairs = [(texts[at // len(words)], words[at % len(words)]) for at in present.tolist()]
    return number[pair], tuple(text for text, _ in pairs), tuple(category_of(*both) for both in pairs)


def spans_of(track: Track, table: str, start: Ints, end: Ints, naming: Naming, rows: Ints) -> Spans:
    """The spans of a track, `rows` of its table: `start`, `end` and the naming are of all rows of the table."""
    codes, names, categories = naming
    made = lanes(start[rows], end[rows], codes[rows], rows)
    first, last = int(start[rows].min()), int(end[rows].max())
    full = replace(track, lanes=len(made), count=len(rows), first=first, last=last)
    return Spans(full, made, names, categories, table)
