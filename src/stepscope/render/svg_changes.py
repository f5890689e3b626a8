"""Changes between two runs as pictures: bars from zero, and a ratio with its interval.

Blue is faster and orange is slower; sign and word say the same, for those who see no difference in the colors.
"""

import math
from collections.abc import Sequence
from textwrap import wrap

from stepscope.core.report import Interval, Table
from stepscope.render.format import cell, plain, quantity, signed
from stepscope.render.svg_parts import INK, LETTER, LINE, MARGIN, QUIET, TITLE, WIDTH, box, fitting, words_at

__all__ = ["changes_drawn", "interval_drawn"]

_FASTER, _SLOWER = "#0072b2", "#c25700"
_MOST = 14  # rows that a slide holds
_ROW, _BAR = 26, 14  # px from row to row; how high a bar is
_NAMES, _AXIS, _AMOUNT, _SIDES = 290, 465, 632, 776  # px: names end; zero; differences begin; A and B begin
_HALF = 155  # px of the largest difference
_ROUND = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
_ROOM = 1.25  # of the way from 1 to the farthest end
_MARKS = 2  # on each side of 1
_HEIGHT = 64  # px of the field in which an interval is drawn
_WAYS = {"faster": _FASTER, "slower": _SLOWER}


def changes_drawn(block: Table) -> tuple[float, list[str]]:
    """Height and drawing of the rows of a table with a column of changes, which comes after those of A and B."""
    change = block.change or 0
    unit, rows, more = block.columns[change][1], block.rows[:_MOST], len(block.rows) - _MOST
    values = [value if isinstance(value := row[change], int | float) else 0 for row in rows]
    most, top = max(map(abs, values), default=0), TITLE + 34
    drawn = [
        words_at(MARGIN, TITLE + 18, plain(block.columns[0][0]), fill=QUIET),
        words_at(_AMOUNT, TITLE + 18, plain(block.columns[change][0]), fill=QUIET),
        words_at(_SIDES, TITLE + 18, "A → B", fill=QUIET),
    ]
    for number, (row, value) in enumerate(zip(rows, values, strict=True)):
        y, length = top + number * _ROW, abs(value) / most * _HALF if most else 0.0
        name = fitting(cell(row[0], None).strip(), _NAMES - MARGIN)
        sides = " → ".join(cell(row[at], unit) for at in (change - 2, change - 1))
        drawn.append(words_at(MARGIN, y + 12, name))
        drawn.append(box(_AXIS - length if value < 0 else _AXIS, y, length, _BAR, _FASTER if value < 0 else _SLOWER))
        drawn.append(words_at(_AMOUNT, y + 12, f"{signed(value, unit)} {_way(value)}"))
        drawn.append(words_at(_SIDES, y + 12, sides, fill=QUIET))
    bottom = top + len(rows) * _ROW
    drawn.append(f'<path d="M{_AXIS} {top - 6}V{bottom - 6}" stroke="{INK}"/>')
    if more > 0:
        drawn.append(words_at(MARGIN, bottom + 12, f"and {quantity(more, 'count')} more", fill=QUIET))
    return bottom + (_ROW if more > 0 else 0) + MARGIN - 8, drawn


def _way(value: float) -> str:
    if not value:
        return "unchanged"
    return "faster" if value < 0 else "slower"


def interval_drawn(block: Interval) -> tuple[float, list[str]]:
    """Height and drawing: the ratio between its ends on a line of ratios, and the sentence about it."""
    ends = (block.low, block.high, *(block.widened or ()))
    reach = max(*(abs(math.log(end)) for end in ends), math.log(_ROUND[0])) * _ROOM
    top, middle, color = TITLE + 44, TITLE + 44 + _HEIGHT / 2, _WAYS.get(block.kind, QUIET)

    def x(ratio: float) -> float:
        return WIDTH / 2 + (WIDTH / 2 - MARGIN) * min(max(math.log(ratio) / reach, -1.0), 1.0)

    numbers = (quantity(float(number), None) for number in (block.estimate, block.low, block.high))
    ratio = "{}× (95 % interval {}–{})".format(*numbers)
    drawn = [
        words_at(WIDTH / 2, TITLE + 12, ratio, weight=600, anchor="middle"),
        words_at(MARGIN, top - 8, "← B slower", fill=QUIET),
        words_at(WIDTH - MARGIN, top - 8, "B faster →", fill=QUIET, anchor="end"),
    ]
    for mark in _marks(reach):
        ink = f'stroke="{INK}" stroke-dasharray="3 3"' if mark == 1 else f'stroke="{LINE}"'
        drawn.append(f'<path d="M{x(mark):.1f} {top}V{top + _HEIGHT}" {ink}/>')
        drawn.append(words_at(x(mark), top + _HEIGHT + 18, f"{quantity(mark, None)}×", fill=QUIET, anchor="middle"))
    if block.widened:
        drawn.append(_across(x(block.widened[0]), x(block.widened[1]), middle, f'"{QUIET}" stroke-dasharray="2 4"'))
    drawn.append(_across(x(block.low), x(block.high), middle, f'"{color}" stroke-width="3"'))
    drawn += [
        f'<path d="M{x(end):.1f} {middle - 12}V{middle + 12}" stroke="{color}" stroke-width="3"/>'
        for end in (block.low, block.high)
    ]
    drawn.append(box(x(block.estimate) - 6, middle - 6, 12, 12, color))
    told = wrap(plain(block.meaning, 400), int((WIDTH - 2 * MARGIN) / LETTER))
    below = top + _HEIGHT + 46
    drawn += [words_at(WIDTH / 2, below + 18 * at, line, anchor="middle") for at, line in enumerate(told)]
    return below + 18 * len(told) + MARGIN - 18, drawn


def _marks(reach: float) -> Sequence[float]:
    """1, and on each side the roundest ratios that are within reach."""
    inside = [ratio for ratio in _ROUND if math.log(ratio) < reach * 0.94][-_MARKS:]
    return [*(1 / ratio for ratio in reversed(inside)), 1, *inside]


def _across(start: float, end: float, y: float, stroke: str) -> str:
    return f'<path d="M{start:.1f} {y}H{end:.1f}" stroke={stroke}/>'
