"""What every picture in SVG is made of: its size, its inks, boxes and words."""

import unicodedata
from html import escape

from stepscope.render.format import shorten

__all__ = ["INK", "LETTER", "LINE", "MARGIN", "QUIET", "TITLE", "WIDTH", "box", "fitting", "words_at"]

WIDTH, MARGIN, TITLE = 960, 24, 52
"""px: half a slide; free space at the edges; from the top to below the title."""

INK, QUIET, LINE = "#1b1f24", "#57606a", "#d9dde3"

LETTER = 7.6
"""px of a letter, wide ones of the alphabet included."""

_WIDE = 13.2  # px of a letter of Chinese, Japanese or Korean


def box(x: float, y: float, width: float, height: float, color: str) -> str:
    """A filled box with sharp edges."""
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    return f'<rect {place} fill="{color}" shape-rendering="crispEdges"/>'


def words_at(
    x: float, y: float, words: str, *, fill: str = INK, size: int = 0, weight: int = 0, anchor: str = ""
) -> str:
    """Words on a line that ends, is in the middle, or else begins, at x."""
    more = (f' font-size="{size}"' if size else "") + (f' font-weight="{weight}"' if weight else "")
    more += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}"{more}>{escape(words)}</text>'


def fitting(words: str, room: float) -> str:
    """The words, without their middle where all of them would be wider than `room` px."""
    limit = len(words)
    while limit > 1 and _length(shorten(words, limit)) > room:
        limit -= 1
    return shorten(words, limit)


def _length(words: str) -> float:
    return sum(_WIDE if unicodedata.east_asian_width(letter) in "WF" else LETTER for letter in words)
