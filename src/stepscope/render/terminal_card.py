"""The first screen of a report: verdict, bar, and a card for each of the findings that save most.

Three findings take at most LINES lines. Where they would take more, the cards are drawn closer: the later ones show
their marked line only, and no text takes more than one line. A command is never cut: it is what a person pastes.
"""

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Line

from stepscope.core.report import Table
from stepscope.render.card import Card, SourceLine, cards, footer, overlap_text, rest_text
from stepscope.render.document import Report
from stepscope.render.format import counted, place_text, plain
from stepscope.render.names import abbreviated
from stepscope.render.terminal import folded, print_block, print_sections, relative

__all__ = ["LINES", "print_card", "print_report"]

LINES = 40
"""What a terminal shows without scrolling: they are 24 to 60 lines high, and most who work on one enlarge it."""

_BODY = 3  # cells before what belongs to a finding
_LABEL = 7  # cells of `Fix`, `Why`, `Basis` and `Try`
_SHORTEST = 12  # cells of a path, below which no file can be told
_GAP = 2  # cells between a text and what stands at the right
_ROOMY, _CLOSE, _CLOSEST = range(3)


def print_report(console: Console, report: Report) -> None:
    """Print the first screen, then every section."""
    print_card(console, report)
    print_sections(console, report)


def print_card(console: Console, report: Report) -> None:
    """Print the first screen."""
    with console.capture() as head:
        _print_head(console, report)
    room = LINES - head.get().count("\n")
    for density in (_ROOMY, _CLOSE, _CLOSEST):
        lines = _lines(console, report, density)
        if len(lines) + 1 + len(_footer(console, report)) <= room:
            break
    _print_head(console, report)
    for line in lines:
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    if report.path:
        console.print()
    for line in _footer(console, report):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def _print_head(console: Console, report: Report) -> None:
    """The summary, with an empty line around a table."""
    blocks = [block for part in report.parts[:1] for block in part.blocks]
    for before, block in zip([None, *blocks], blocks, strict=False):
        if isinstance(block, Table) or isinstance(before, Table):
            console.print()
        print_block(console, block, report)


def _lines(console: Console, report: Report, density: int) -> list[Line]:
    """All lines below the bar."""
    lines: list[Line] = []
    for card in cards(report):
        lines += [Line()] if density < _CLOSEST or card.number == 1 else []
        lines += _card(console, card, density)
    more = [text for overlap in report.overlaps if (text := overlap_text(overlap, report))]
    more += [rest_text(report)] if rest_text(report) else []
    lines += [Line()] if more and density < _CLOSEST else []
    return lines + [Line(f"{' ' * _BODY}{text}.") for text in more]


def _footer(console: Console, report: Report) -> list[Line]:
    """What was checked and the commands that show more; a long one has a line that the terminal folds."""
    lines: list[str] = []
    for text in footer(report) if report.path else ():
        if lines and len(lines[-1]) + len(text) + 3 <= console.width:
            lines[-1] += f" · {text}"
        else:
            lines.append(text)
    return [Line(text, style="dim") for text in lines]


def _card(console: Console, card: Card, density: int) -> list[Line]:
    lines = [*_heading(console, card, density), *_place(console, card)]
    whole = density == _ROOMY or (density == _CLOSE and card.number == 1)
    lines += _source_lines(console, [line for line in card.source if line.marked or whole])
    lines += _row(console, "Fix", card.fix, density)
    lines += _code(console, card, whole=whole or card.number == 1)
    facts = _in_lines(card.why, console.width - _BODY - _LABEL)
    for number, line in enumerate(facts if density == _ROOMY else facts[:1]):
        lines += _row(console, "Why" if number == 0 else "", line, density, "dim")
    lines += _row(console, "Basis", card.basis, density, "dim")
    return [*lines, *_row(console, "Try", card.trial, _ROOMY, "dim")]


def _code(console: Console, card: Card, *, whole: bool) -> list[Line]:
    """The code to write, or its first line and how many follow."""
    code = card.code if whole else card.code[:1]
    left = card.more_code + len(card.code) - len(code)
    more = f"  (and {counted(left, 'more line')}: --full)" if left else ""
    lead = " " * (_BODY + _LABEL)
    lines = [line for text in code for line in folded(console, Line(text, "cyan"), lead)]
    return [*lines[:-1], lines[-1].append(more, "dim")] if lines else []


def _in_lines(texts: tuple[str, ...], room: int) -> list[str]:
    """Facts on as few lines as hold them whole: of a figure that is cut nobody can tell what it was."""
    lines: list[str] = []
    for text in texts:
        if lines and len(lines[-1]) + len("; ") + len(text) <= room:
            lines[-1] += f"; {text}"
        else:
            lines.append(text)
    return lines


def _heading(console: Console, card: Card, density: int) -> list[Line]:
    """Title, and the gain at the right of its last line, or of one more."""
    lead = f"{card.number}  "
    lines = folded(console, Line(card.title, style="bold"), lead)[: 1 if density == _CLOSEST else 2]
    gain = Line(card.gain, style="green")
    if gain and lines[-1].cell_len + _GAP + gain.cell_len > console.width:
        lines.append(Line())
    if gain:
        _at_the_right(console, lines[-1], gain)
    return lines


def _place(console: Console, card: Card) -> list[Line]:
    """The place, its path shortened where the line is short, and its share at the right."""
    if card.place is None:
        return []
    place = relative(card.place)
    file, text = plain(place.file), place_text(place)
    room = console.width - _BODY - (len(card.share) + _GAP if card.share else 0)
    shown = abbreviated(file, max(room - len(text) + len(file), _SHORTEST)) if len(text) > room else file
    line = Line(" " * _BODY).append(f"{shown}{text[len(file) :]}", "yellow")
    if card.share:
        _at_the_right(console, line, Line(card.share, style="dim"))
    return [line]


def _at_the_right(console: Console, line: Line, text: Line) -> None:
    line.append(" " * max(console.width - line.cell_len - text.cell_len, _GAP)).append_text(text)


def _source_lines(console: Console, source: list[SourceLine]) -> list[Line]:
    """Lines of code, indented less where the marked one is too long: its beginning tells more than its depth."""
    if not source:
        return []
    width = max(len(str(line.number)) for line in source)
    room = console.width - (_BODY + 2) - len("▶ ") - width - 2
    too_long = any(line.marked and cell_len(line.text) > room for line in source)
    deep = max((_indent(line.text) for line in source if line.marked), default=0) if too_long else 0
    sign = "▶" if console.encoding.lower().startswith("utf") else ">"
    drawn = []
    for line in source:
        lead = f"{' ' * (_BODY + 2)}{sign if line.marked else ' '} {line.number:>{width}}  "
        code = Line(line.text[min(deep, _indent(line.text)) :], style="default" if line.marked else "dim")
        code.truncate(room, overflow="ellipsis")
        drawn.append(Line().append(lead, "dim").append_text(code))
    return drawn


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _row(console: Console, label: str, text: str, density: int, style: str = "") -> list[Line]:
    """A label and its text, folded where there is room."""
    if not text:
        return []
    lead = f"{' ' * _BODY}{label:<{_LABEL}}"
    if density == _CLOSEST:
        return [Line(lead, style="dim").append(text, style or "default")]
    lines = folded(console, Line(text, style=style), lead)
    return lines if density == _ROOMY else lines[:2]
