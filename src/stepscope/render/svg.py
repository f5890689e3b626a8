"""Every picture as SVG for slides and documents: light, readable alone, no script."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from stepscope.core.report import Bars, Flame, Heatmap, Interval, Lanes, Lines, Table
from stepscope.core.schema import Unit
from stepscope.render.bars import looks, shares
from stepscope.render.flames import Box, boxes
from stepscope.render.format import on_axis, plain, quantity, shorten, text
from stepscope.render.svg_changes import changes_drawn, interval_drawn
from stepscope.render.svg_parts import LETTER, LINE, MARGIN, QUIET, TITLE, WIDTH, box, fitting, words_at

__all__ = ["Picture", "svg"]

Picture = Bars | Lines | Heatmap | Lanes | Flame | Interval | Table
"""The blocks that are pictures; of tables, those of changes."""

_LEFT, _PLOT = 104, 320  # px: where a plot begins, right of its numbers; how high it is
_FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', Arial, sans-serif"
_PAGE, _LIMIT = "#ffffff", "#b34700"
_COLORS = ("#d98a00", "#0072b2", "#56b4e9", "#a0559f", "#009e73", "#c94a00", "#7f6b2f", "#9aa2ab")  # as in the page
_HEAT = ((242, 245, 249), (106, 167, 216), (179, 71, 0))
_FEW = 160  # bars that are wide enough to be seen apart
_MARKS = 5  # about so many along an axis
_TALLEST_ROW, _TALLEST_MAP = 22, 520  # px
_FLAME_ROW, _FLAME_ROWS = 20, 36  # px; rows, two thirds of a page: deeper ones can be read in the page only
_KINDS = {
    "user": ("your code", "#f5c66b"), "library": ("libraries", "#dde2e8"), "module": ("modules", "#dcc5ea"),
    "operator": ("operators", "#a9d2f3"), "call": ("runtime calls", "#a8dcc8"),
    "": ("phases, threads, marks", "#f1f3f5"),
}  # fmt: skip
"""What frames are, and their colors, as in the page."""
_LANE = 13  # letters of a label that stand left of a plot


def svg(picture: Picture, *subjects: str) -> str:
    """A document; `subjects` stand below the title: the run it is of, or several, each with as much room."""
    match picture:
        case Bars():
            height, drawn = _bars(picture)
        case Lines():
            height, drawn = _lines(picture)
        case Heatmap():
            height, drawn = _heatmap(picture)
        case Flame():
            height, drawn = _flame(picture)
        case Lanes():
            height, drawn = _lanes(picture)
        case Interval():
            height, drawn = interval_drawn(picture)
        case Table():
            height, drawn = changes_drawn(picture)
    title = plain(picture.title)
    room = (WIDTH - 2 * MARGIN) / max(len(subjects), 1)
    told = ", ".join(fitting(plain(subject, 400), room) for subject in subjects)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="{_FONT}" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="100%" fill="{_PAGE}"/>',
        words_at(MARGIN, 26, title, size=16, weight=600),
        words_at(MARGIN, 44, told, fill=QUIET, size=12),
    ]
    return "\n".join([*head, *drawn, "</svg>"]) + "\n"


def _bars(block: Bars) -> tuple[float, list[str]]:
    values = [max(part.value, 0.0) for part in block.parts]
    parts, colors = shares(values), _colors(part.label for part in block.parts)
    whole = (WIDTH - 2 * MARGIN) * (min(sum(values) / block.whole, 1) if block.whole else 1)
    drawn, at = [], float(MARGIN)
    for share, color in zip(parts, colors, strict=True):
        drawn.append(box(at, TITLE + 8, share * whole, 44, color))
        at += share * whole
    told = [
        f"{plain(part.label)} {quantity(share, 'ratio')}, {quantity(part.value, block.unit)}"
        for part, share in zip(block.parts, parts, strict=True)
    ]
    bottom, legend = _legend(told, colors, TITLE + 78)
    return bottom + MARGIN - 8, [*drawn, *legend]


def _lines(block: Lines) -> tuple[float, list[str]]:
    colors = _colors(line.label for line in block.lines)
    bottom, drawn = _legend([plain(line.label) for line in block.lines], colors, TITLE + 16)
    top = bottom + 6
    xs = sorted({x for line in block.lines for x, _ in line.points})
    bars = block.stacked and len(xs) <= _FEW
    heights = [sum(values) for values in zip(*_columns(block, xs), strict=True)] if block.stacked else []
    most = max(
        [*heights, *(y or 0 for line in block.lines for _, y in line.points), *(b.value for b in block.limits), 0]
    )
    marks = _marks(most or 1, block.unit)
    scale = _Scale(xs, marks[-1], top, bars)
    drawn += _axes(scale, marks, block)
    if block.stacked:
        drawn += _stack(scale, block, colors, bars)
    else:
        drawn += [_curve(scale, line.points, color) for line, color in zip(block.lines, colors, strict=True)]
    for limit in block.limits:
        y = scale.y(limit.value)
        drawn.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - MARGIN}" stroke="{_LIMIT}" stroke-dasharray="6 4"/>')
        drawn.append(words_at(_LEFT + 6, y + 15, f"{plain(limit.label)} {quantity(limit.value, block.unit)}"))
    return top + _PLOT + 58, drawn


class _Scale:
    """From values to pixels; with `bars` each x has a column of its own, all as wide."""

    def __init__(self, xs: Sequence[float], most: float, top: float, bars: bool) -> None:
        self.xs, self.most, self.top, self.bars = xs, most, top, bars
        self.width = WIDTH - MARGIN - _LEFT
        self.column = self.width / max(len(xs), 1)
        self.place = {x: number for number, x in enumerate(xs)}

    def x(self, value: float) -> float:
        if self.bars:
            return _LEFT + self.place[value] * self.column
        length = self.xs[-1] - self.xs[0]
        return _LEFT + ((value - self.xs[0]) / length * self.width if length else 0)

    def y(self, value: float) -> float:
        return self.top + _PLOT * (1 - value / self.most)


def _axes(scale: _Scale, marks: Sequence[float], block: Lines) -> list[str]:
    drawn = []
    for mark in marks:
        y = scale.y(mark)
        drawn.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - MARGIN}" stroke="{LINE}"/>')
        drawn.append(words_at(_LEFT - 8, y + 4, on_axis(mark, block.unit, marks[-1]), fill=QUIET, anchor="end"))
    bottom = scale.top + _PLOT
    for x in _some(scale.xs):
        at = scale.x(x) + (scale.column / 2 if scale.bars else 0)
        drawn.append(words_at(at, bottom + 18, on_axis(x, block.x_unit, scale.xs[-1]), fill=QUIET, anchor="middle"))
    return [*drawn, words_at((_LEFT + WIDTH - MARGIN) / 2, bottom + 40, plain(block.x), fill=QUIET, anchor="middle")]


def _columns(block: Lines, xs: Sequence[float]) -> list[list[float]]:
    """The values of each curve at each x; what was not recorded adds nothing."""
    return [[known.get(x) or 0.0 for x in xs] for known in (dict(line.points) for line in block.lines)]


def _stack(scale: _Scale, block: Lines, colors: Sequence[str], bars: bool) -> list[str]:
    drawn, below = [], [0.0] * len(scale.xs)
    for values, color in zip(_columns(block, scale.xs), colors, strict=True):
        above = [low + value for low, value in zip(below, values, strict=True)]
        if bars:
            boxes = zip(scale.xs, below, above, strict=True)
            gap = scale.column * 0.12
            drawn += [
                box(scale.x(x) + gap / 2, scale.y(high), scale.column - gap, scale.y(low) - scale.y(high), color)
                for x, low, high in boxes
                if high > low
            ]
        else:
            there = [f"{scale.x(x):.1f} {scale.y(y):.1f}" for x, y in zip(scale.xs, above, strict=True)]
            back = [f"{scale.x(x):.1f} {scale.y(y):.1f}" for x, y in zip(scale.xs, below, strict=True)]
            drawn.append(f'<path d="M{"L".join([*there, *reversed(back)])}Z" fill="{color}"/>')
        below = above
    return drawn


def _curve(scale: _Scale, points: Iterable[tuple[float, float | None]], color: str) -> str:
    """A value holds until the next one; where nothing was recorded the curve is open."""
    path, drawing = [], False
    for x, y in points:
        if y is None:
            path.append(f"H{scale.x(x):.1f}" if drawing else "")
        else:
            at = f"{scale.x(x):.1f}"
            path.append(f"H{at}V{scale.y(y):.1f}" if drawing else f"M{at} {scale.y(y):.1f}")
        drawing = y is not None
    return f'<path d="{"".join(path)}" fill="none" stroke="{color}" stroke-width="1.5"/>'


def _heatmap(block: Heatmap) -> tuple[float, list[str]]:
    known = [value for row in block.values for value in row if value is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    column = (WIDTH - MARGIN - _LEFT) / max(len(block.xs), 1)
    row = min(_TALLEST_ROW, _TALLEST_MAP / max(len(block.ys), 1))
    top, drawn = TITLE + 12, []
    for number, values in enumerate(block.values):
        for place, value in enumerate(values):
            if value is not None:
                share = (value - least) / (most - least) if most > least else 0.0
                drawn.append(box(_LEFT + place * column, top + number * row, column, row, _heat(share)))
    bottom = top + row * len(block.ys)
    for y in _some(block.ys, max(1, int(bottom - top) // 18)):
        at = top + (block.ys.index(y) + 0.5) * row + 4
        drawn.append(words_at(_LEFT - 8, at, f"{plain(block.y)} {y}", fill=QUIET, anchor="end"))
    for x in _some(block.xs):
        at = _LEFT + (block.xs.index(x) + 0.5) * column
        drawn.append(words_at(at, bottom + 18, str(x), fill=QUIET, anchor="middle"))
    drawn.append(words_at((_LEFT + WIDTH - MARGIN) / 2, bottom + 38, plain(block.x), fill=QUIET, anchor="middle"))
    return bottom + 88, [*drawn, *_shades(bottom + 58, quantity(least, block.unit), quantity(most, block.unit))]


def _flame(block: Flame) -> tuple[float, list[str]]:
    """The root on top, below each box what it called."""
    laid = boxes(block)
    used = {_kind(frame.kind) for frame in laid}
    kinds = [look for kind, look in _KINDS.items() if kind in used]
    top, drawn = _legend([name for name, _ in kinds], [color for _, color in kinds], TITLE + 16)
    width = WIDTH - 2 * MARGIN
    shown = [frame for frame in laid if frame.width * width >= 0.5]
    rows = min(max((frame.row for frame in shown), default=0) + 1, _FLAME_ROWS)
    drawn += [_frame(frame, top + 8, width, block) for frame in shown if frame.row < rows]
    bottom = top + 8 + rows * _FLAME_ROW + 20
    below = sum(frame.row >= rows for frame in shown)
    deeper = f" Deeper than is drawn: {quantity(below, 'count')} frames." if below else ""
    return bottom + MARGIN - 8, [*drawn, words_at(MARGIN, bottom, f"{text(block.note)}{deeper}", fill=QUIET, size=12)]


def _frame(frame: Box, top: float, width: float, block: Flame) -> str:
    """A box with as much of its name as has room; all of it when pointed at."""
    x, y, wide = MARGIN + frame.left * width, top + frame.row * _FLAME_ROW, frame.width * width
    name = plain(frame.name)
    room = int((wide - 6) / LETTER)
    words = name if len(name) <= room else f"{name[: room - 1]}…" if room > 3 else ""
    told = f"{name}: {quantity(frame.total, block.unit)}, {quantity(frame.width, 'ratio')}"
    color = _KINDS[_kind(frame.kind)][1]
    drawn = box(x, y, max(wide - 0.6, 0.3), _FLAME_ROW - 1, color)
    label = words_at(x + 3, y + 14, words, size=12) if words else ""
    return f"<g><title>{escape(told)}</title>{drawn}{label}</g>"


def _kind(kind: str) -> str:
    return kind if kind in _KINDS else ""


def _lanes(block: Lanes) -> tuple[float, list[str]]:
    colors = dict(zip(block.kinds, _colors(block.kinds), strict=True))
    top, drawn = _legend([plain(kind) for kind in block.kinds], list(colors.values()), TITLE + 16)
    scale = (WIDTH - MARGIN - _LEFT) / max(block.length, 1)
    for number, lane in enumerate(block.lanes):
        y = top + 8 + number * (_TALLEST_ROW + 4)
        drawn.append(words_at(_LEFT - 8, y + 15, shorten(plain(lane.label), _LANE), fill=QUIET, anchor="end"))
        drawn += [
            box(_LEFT + start * scale, y, (end - start) * scale, _TALLEST_ROW, colors[what])
            for start, end, what in lane.spans
        ]
    bottom = top + 8 + len(block.lanes) * (_TALLEST_ROW + 4)
    for mark in _marks(block.length or 1, "ns"):
        if mark <= block.length:
            at, label = _LEFT + mark * scale, on_axis(mark, "ns", block.length)
            drawn.append(words_at(at, bottom + 16, label, fill=QUIET, anchor="middle"))
    return bottom + 36, drawn


def _shades(y: float, least: str, most: str) -> list[str]:
    """What the shades mean: from the least to the most."""
    middle = (_LEFT + WIDTH - MARGIN) / 2
    boxes = [box(middle - 80 + 4 * step, y, 4, 12, _heat(step / 39)) for step in range(40)]
    ends = (
        words_at(middle - 88, y + 11, least, fill=QUIET, anchor="end"),
        words_at(middle + 88, y + 11, most, fill=QUIET),
    )
    return [*boxes, *ends]


def _heat(share: float) -> str:
    place = min(int(share * 2), 1)
    part = share * 2 - place
    return "#" + "".join(
        f"{round(low + (high - low) * part):02x}" for low, high in zip(_HEAT[place], _HEAT[place + 1], strict=True)
    )


def _legend(labels: Sequence[str], colors: Sequence[str], y: float) -> tuple[float, list[str]]:
    """Names with their colors, in as many rows as they take, and where the rows end."""
    drawn, x = [], float(MARGIN)
    for label, color in zip(labels, colors, strict=True):
        width = 24 + LETTER * len(label) + 14
        if x > MARGIN and x + width > WIDTH - MARGIN:
            x, y = float(MARGIN), y + 22
        drawn += [box(x, y - 10, 12, 12, color), words_at(x + 18, y, label)]
        x += width
    return y + 10, drawn


def _marks(most: float, unit: Unit | None) -> list[float]:
    """Round values from 0 to the first that is not below `most`; sizes by powers of two."""
    rough = most / _MARKS
    if unit == "bytes":
        step = 2.0 ** math.ceil(math.log2(rough))
    else:
        power = 10.0 ** math.floor(math.log10(rough))
        step = next((factor * power for factor in (1, 2, 5) if factor * power >= rough), 10 * power)
    return [number * step for number in range(math.ceil(most / step - 1e-9) + 1)]


def _some(values: Sequence[int] | Sequence[float], most: int = 10) -> Sequence[float]:
    """Values that are as far apart, at most so many."""
    return values[:: max(1, -(-len(values) // most))]


def _colors(labels: Iterable[str]) -> list[str]:
    return [_COLORS[look] for look in looks(list(labels), len(_COLORS))]
