"""Tables on a terminal: numbers are never cut, sentences are folded, and long names lose what tells least.

Of a table that says which columns are the most useful ones, those that fit are printed; of others all are, in several
blocks if need be.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from stepscope.core.report import Table
from stepscope.render.format import ABSENT, cell, plain, shorten
from stepscope.render.names import FRAME, told_apart

__all__ = ["LeftOut", "print_table"]

_BREAK = re.compile(r"(?<=_)|\s+")  # where a heading may be folded
_GAP = 2  # blanks between columns
_NARROWEST = 20  # cells below which a name cannot be read
_HEADING = 12  # cells that the heading of a column of numbers may take on one line
_LONGEST_WORD = 30  # cells of a word that is kept whole, such as the name of a rule
_BETWEEN = " › "  # of the names of a path, a good place for a line to end
_NARROW = 36  # cells in which many names of kernels look alike
_NAME_SHARE = 3  # a name wants this part of the width, if it is that long, before one more column is shown beside it
_LONGEST_NAME = 10_000  # characters of a name that is shown whole: those of C++ fill a screen, a broken trace many
_LONGEST_SENTENCE = 400
_LONGEST_COMMAND = 1_000  # characters of a sentence with a command: no name in a trace may be endless
_FOLDS_OF_WORDS = 12  # lines that a sentence may take


@dataclass(frozen=True, slots=True)
class _Names:
    """How names are shown: in a narrow column on so many lines (None: on as many as it takes); of how many blanks on a
    text is a sentence."""

    lines: int | None
    words: int

    def most(self, width: int) -> int | None:
        """Lines of a name in a column of this width."""
        return 1 if self.lines is not None and width >= _NARROW else self.lines


_WHOLE = _Names(None, 1)
_FOLDED = _Names(2, 1)  # in a report, which always shows all columns
_ONE_LINE = _Names(1, 5)  # kernels of compilers have names of several words


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    heading: str
    texts: tuple[str, ...]
    number: bool
    names_row: bool

    @property
    def width(self) -> int:
        """Cells of the longest text; a heading over numbers folds at blanks and underscores."""
        heading = cell_len(self.heading)
        if self.number:
            longest = max(map(cell_len, _BREAK.split(self.heading)))
            heading = max(map(cell_len, _heading_lines(self.heading, max(_HEADING, longest))))
        return max(heading, *map(cell_len, self.texts), 1)

    @property
    def least(self) -> int:
        if self.number:
            return self.width
        words = (word for text in self.texts if _is_prose(text) for word in text.split())
        longest = max((cell_len(word) for word in words if cell_len(word) <= _LONGEST_WORD), default=0)
        return min(self.width, max(_NARROWEST, longest))

    def wanted(self, room: int) -> int:
        """Cells that the column should get before another one finds room."""
        return self.width if self.number else min(self.width, max(self.least, room // _NAME_SHARE))

    def short(self, width: int, names: "_Names") -> dict[str, str]:
        """The names that are too long for this width, as they are shown."""
        most = names.most(width)
        long = (text for text in self.texts if cell_len(text) > width and _is_name(text, names))
        return {} if most is None else told_apart(long, width * most)

    def lines(self, console: Console, row: int, width: int, names: "_Names", short: Mapping[str, str]) -> list[str]:
        """A cell of the column. Sentences break at blanks; half a command cannot be run, so none is ever cut."""
        text, most = self.texts[row], names.most(width)
        if cell_len(text) <= width:
            return [text]
        if _is_name(text, names):
            return chop_cells(short.get(text, text), width)[:most]
        text = text if most is None or _has_command(text) else shorten(text, width * _FOLDS_OF_WORDS)
        return [line.plain.rstrip() for line in Text(text).wrap(console, width, overflow="fold")] or [""]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What a table did not show: headings of columns, and whether there are names of which a part is missing."""

    columns: tuple[str, ...]
    parts_of_names: bool


def print_table(console: Console, table: Table, *, whole: bool = False) -> LeftOut:
    """Print a table, with names in full if `whole`."""
    columns = [
        _Column(
            heading=plain(heading),
            texts=tuple(cell(row[i], unit, _limit(row[i], whole=whole)) for row in table.rows),
            number=unit is not None or not any(isinstance(row[i], str) for row in table.rows),
            names_row=unit is None,
        )
        for i, (heading, unit) in enumerate(table.columns)
    ]
    shown = _fitting(columns, table.order, console.width) if table.order else _telling(columns, console.width)
    shortened = False
    for number, block in enumerate(_blocks(shown, console.width)):
        if number:
            console.print()
        shortened |= _print_block(console, block, _WHOLE if whole else _ONE_LINE if table.order else _FOLDED)
    left = tuple(table.columns[i][0] for i, column in enumerate(columns) if column not in shown) if table.order else ()
    return LeftOut(columns=left, parts_of_names=shortened)


def _limit(value: object, *, whole: bool) -> int:
    if whole or not isinstance(value, str) or not _is_prose(value):
        return _LONGEST_NAME
    return _LONGEST_COMMAND if _has_command(value) else _LONGEST_SENTENCE


def _is_prose(text: str) -> bool:
    """True for sentences and paths; names of functions and kernels have colons or brackets within, others no blanks."""
    marked = any(mark in text for mark in ("::", "<", "()")) or FRAME.fullmatch(text)
    return _has_command(text) or _BETWEEN in text or (" " in text.strip() and not marked)


def _is_name(text: str, names: _Names) -> bool:
    return not _is_prose(text) or text.count(" ") < names.words


def _has_command(text: str) -> bool:
    """True for sentences of ours that say what to run."""
    return text.count("`") == 2 and " " in text


def _telling(columns: Sequence[_Column], room: int) -> Sequence[_Column]:
    """All columns if names have room beside them, else those in which any row has a value."""
    if sum(column.wanted(room) + _GAP for column in columns) <= room + _GAP:
        return columns
    return [column for column in columns if any(text != ABSENT for text in column.texts)] or columns


def _fitting(columns: Sequence[_Column], order: Sequence[int], room: int) -> list[_Column]:
    """Of the columns in order of use the first ones that fit side by side, in the order of the table."""
    ends = accumulate(columns[position].wanted(room) + _GAP for position in order)
    count = sum(end <= room + _GAP for end in ends)
    return [columns[position] for position in sorted(order[: max(count, 1)])]


def _blocks(columns: Sequence[_Column], room: int) -> list[list[_Column]]:
    """All columns if they fit, else several blocks that each begin with the columns that name a row."""
    if _least(columns) <= room:
        return [list(columns)]
    keys = list(takewhile(lambda column: column.names_row, columns)) or [columns[0]]
    while len(keys) > 1 and _least(keys) > room // 2:
        keys.pop()
    rest = list(columns[len(keys) :])
    blocks: list[list[_Column]] = []
    while rest:
        count = 1
        while count < len(rest) and _least([*keys, *rest[: count + 1]]) <= room:
            count += 1
        blocks.append([*keys, *rest[:count]])
        rest = rest[count:]
    return blocks or [keys]


def _least(columns: Sequence[_Column]) -> int:
    return sum(column.least for column in columns) + _GAP * (len(columns) - 1)


def _print_block(console: Console, columns: Sequence[_Column], names: _Names) -> bool:
    """Columns that fit, side by side; the room that is left goes to the names that need it.

    True if one of them did not get enough, and was shortened.
    """
    widths = _widths(columns, max(console.width - _least(columns), 0))
    heads = [_heading_lines(column.heading, width) for column, width in zip(columns, widths, strict=True)]
    tallest = max(map(len, heads))
    _print_row(console, columns, widths, [[""] * (tallest - len(head)) + head for head in heads], style="dim")
    short = [column.short(width, names) for column, width in zip(columns, widths, strict=True)]
    for row in range(len(columns[0].texts)):
        lines = [
            column.lines(console, row, width, names, known)
            for column, width, known in zip(columns, widths, short, strict=True)
        ]
        _print_row(console, columns, widths, lines, style="")
    narrow = (column for column, width in zip(columns, widths, strict=True) if column.width > width)
    return names.lines is not None and any(not _is_prose(text) for column in narrow for text in column.texts)


def _widths(columns: Sequence[_Column], spare: int) -> list[int]:
    """Widths of columns that share `spare` cells: those that need little get all of it, the others equal parts."""
    widths = [column.least for column in columns]
    needs = sorted((column.width - column.least, i) for i, column in enumerate(columns))
    for place, (need, i) in enumerate(needs):
        more = min(need, spare // (len(needs) - place))
        widths[i] += more
        spare -= more
    return widths


def _print_row(
    console: Console, columns: Sequence[_Column], widths: Sequence[int], lines: Sequence[list[str]], *, style: str
) -> None:
    for number in range(max(map(len, lines))):
        row = ""
        for column, width, texts in zip(columns, widths, lines, strict=True):
            text = texts[number] if number < len(texts) else ""
            blanks = " " * (width - cell_len(text))
            row += (blanks + text if column.number else text + blanks) + " " * _GAP
        console.print(Text(row.rstrip(), style=style), no_wrap=True, overflow="ignore", crop=False)


def _heading_lines(heading: str, width: int) -> list[str]:
    lines = [""]
    for part in _BREAK.split(heading):
        between = " " * bool(lines[-1] and not lines[-1].endswith("_"))
        if lines[-1] and cell_len(lines[-1] + between + part) > width:
            lines.append(part)
        else:
            lines[-1] += between + part
    return lines
