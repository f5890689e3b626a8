"""Tables on a terminal: numbers are never cut; what is too wide is folded, or printed in several blocks of columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from stepscope.core.report import Table
from stepscope.render.format import cell, plain, shorten

__all__ = ["print_table"]

_GAP = 2  # blanks between columns
_NARROWEST = 20  # cells below which a name cannot be read
_HEADING = 11  # cells that the heading of a column of numbers may take on one line
_LONGEST_WORD = 30  # cells of a word that is kept whole, such as the name of a rule
_BETWEEN = " › "  # of the names of a path, a good place for a line to end
_FOLDS = 2  # lines that a name may take before its middle is left out
_LONGEST_COMMAND = 1_000  # characters of a sentence with a command: no name in a trace may be endless
_FOLDS_OF_WORDS = 12  # lines that a sentence may take


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    heading: str
    texts: tuple[str, ...]
    number: bool
    names_row: bool

    @property
    def width(self) -> int:
        """Cells of the longest text; a heading over numbers folds at its blanks."""
        heading = cell_len(self.heading)
        if self.number:
            heading = max(min(heading, _HEADING), *map(cell_len, self.heading.split()), 0)
        return max(heading, *map(cell_len, self.texts), 1)

    @property
    def least(self) -> int:
        if self.number:
            return self.width
        words = (word for text in self.texts if _is_prose(text) for word in text.split())
        longest = max((cell_len(word) for word in words if cell_len(word) <= _LONGEST_WORD), default=0)
        return min(self.width, max(_NARROWEST, longest))

    def folds(self, width: int) -> list[int]:
        """Length from which the middle of each text is left out: prose is kept, names of functions are not.

        Half a command cannot be run, so a text with one is never cut.
        """
        return [
            max(len(text), 1) if _has_command(text) else width * (_FOLDS_OF_WORDS if _is_prose(text) else _FOLDS)
            for text in self.texts
        ]


def print_table(console: Console, table: Table, *, limit: int = 400) -> None:
    """Print a table; `limit` is the length of a name from which its middle is left out."""
    columns = [
        _Column(
            heading=plain(heading),
            texts=tuple(cell(row[i], unit, _limit(row[i], limit)) for row in table.rows),
            number=unit is not None or any(isinstance(row[i], int | float) for row in table.rows),
            names_row=unit is None,
        )
        for i, (heading, unit) in enumerate(table.columns)
    ]
    for number, block in enumerate(_blocks(columns, console.width)):
        if number:
            console.print()
        _print_block(console, block)


def _limit(value: object, limit: int) -> int:
    return max(limit, _LONGEST_COMMAND) if isinstance(value, str) and _has_command(value) else limit


def _is_prose(text: str) -> bool:
    """True for sentences and paths; names of functions and kernels have colons or brackets within."""
    return _has_command(text) or _BETWEEN in text or not any(mark in text for mark in ("::", "<", "()"))


def _has_command(text: str) -> bool:
    """True for sentences of ours that say what to run."""
    return text.count("`") == 2 and " " in text


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


def _print_block(console: Console, columns: Sequence[_Column]) -> None:
    """Columns that fit, side by side; the room that is left goes to the names that need it."""
    widths = _widths(columns, max(console.width - _least(columns), 0))
    heads = [_folded(console, column.heading, width) for column, width in zip(columns, widths, strict=True)]
    tallest = max(map(len, heads))
    _print_row(console, columns, widths, [[""] * (tallest - len(head)) + head for head in heads], style="dim")
    folds = [column.folds(width) for column, width in zip(columns, widths, strict=True)]
    for row in range(len(columns[0].texts)):
        texts = (shorten(column.texts[row], limits[row]) for column, limits in zip(columns, folds, strict=True))
        lines = [_folded(console, text, width) for text, width in zip(texts, widths, strict=True)]
        _print_row(console, columns, widths, lines, style="")


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


def _folded(console: Console, text: str, width: int) -> list[str]:
    """The lines of a text, each at most `width` cells: sentences break at blanks, names wherever the line is full."""
    if cell_len(text) <= width:
        return [text]
    if not _is_prose(text):
        return chop_cells(text, width) or [""]
    return [line.plain.rstrip() for line in Text(text).wrap(console, width, overflow="fold")] or [""]
