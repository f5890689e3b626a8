"""The blocks of a report on a terminal.

Without a terminal nothing is colored and the width is 100 columns, or COLUMNS where that is set, so that a pipe or a
file always gets the same text.
"""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import IO, assert_never

from rich.console import Console
from rich.rule import Rule
from rich.text import Text as Line

from stepscope.core.finding import Place
from stepscope.core.report import (
    Bars,
    Block,
    ChangeTree,
    FindingBlock,
    Flame,
    Heatmap,
    Interval,
    Lanes,
    Lines,
    Roofline,
    Table,
    Text,
    Verdict,
)
from stepscope.render.bars import cells, looks, shares
from stepscope.render.card import unchecked_text
from stepscope.render.charts import first_rows, heatmap_table, lanes_table, lines_table
from stepscope.render.commands import with_path
from stepscope.render.document import Page, Report
from stepscope.render.flames import heaviest, unlisted
from stepscope.render.format import (
    QUANTITY,
    basis_texts,
    code_lines,
    counted,
    figure_text,
    gain_text,
    place_text,
    plain,
    quantity,
    text,
    title_text,
)
from stepscope.render.tables import print_table
from stepscope.render.verdict import sentence

__all__ = [
    "console_for",
    "folded",
    "print_block",
    "print_checks",
    "print_document",
    "print_finding",
    "print_page",
    "print_sections",
    "print_title",
    "print_words",
    "relative",
]

_PIPE_WIDTH = 100
_USUAL_WIDTH = 80  # of a terminal that does not say
_NARROWEST = 60  # cells: below this nothing lines up, and the terminal may fold as it likes
_VALUE_COLUMN = 12  # where the values of a finding begin
_FILLS = ("█", "▓", "▒", "░", "▚", "▞", "▪", "·")
_PLAIN_FILLS = "#=+-*%o."  # for an output that has ASCII only
_STYLES = ("yellow", "blue", "cyan", "magenta", "green", "red", "white", "bright_black")
_COMMAND = re.compile(r"`[^`]+`")
_NO_BREAK = "\ue000"  # stands for a blank while lines are broken; rich breaks at no-break spaces too
_BOUND_STYLES = {"balanced": "bold green", "device": "bold green", "unknown": "bold yellow"}


class _Console(Console):
    """A console that leaves it to the command line what to do when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        """Called while a BrokenPipeError is handled; rich itself would exit with 1."""
        raise


def console_for(stream: IO[str]) -> Console:
    """A console that takes no markup from text, as wide as the terminal that `stream` is, or as COLUMNS says."""
    width = _asked_width() or (_terminal_width(stream) if stream.isatty() else _PIPE_WIDTH)
    width = max(width, _NARROWEST)
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False, soft_wrap=False)


def _terminal_width(stream: IO[str]) -> int:
    """Of the terminal that this stream is: standard output may be a file meanwhile."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns


def _asked_width() -> int:
    """The number in COLUMNS; 0 if there is none."""
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isascii() and asked.isdigit() else 0


def print_sections(console: Console, report: Report) -> None:
    """Print every section but the summary, then what was not recorded."""
    for part in report.parts[1:]:
        if part.blocks:
            print_title(console, part.title)
            for block in part.blocks:
                print_block(console, block, report)
    _print_lacking(console, report)


def print_checks(console: Console, report: Report) -> None:
    """Print every rule with what it found, or what it lacks."""
    checks = report.checks()
    found = len({block.rule for block in report.findings} & set(report.checked))
    told = f"{counted(found, 'rule')} found a problem, {len(report.checked) - found} did not"
    print_words(console, Line(f"{told}{unchecked_text(report)}.", style="bold"))
    print_table(console, replace(checks, title=""))


def print_document(console: Console, page: Page) -> None:
    """Print a document that is no report: its first sentence, the rest of its first part, then every other part."""
    for number, part in enumerate(page.parts):
        if number:
            print_title(console, part.title)
        for block in part.blocks:
            if block is page.parts[0].blocks[0] and isinstance(block, Text):
                print_words(console, Line(text(block), style="bold"))
            else:
                print_block(console, block, page)


def print_page(console: Console, page: str) -> None:
    """Print a page written in Markdown, such as that of a rule."""
    from rich.markdown import Markdown  # 40 ms that no table needs

    with console.capture() as drawn:
        console.print(Markdown(page, code_theme="default", hyperlinks=False))
    for line in drawn.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def print_title(console: Console, title: str) -> None:
    """Print the heading of a section."""
    console.print()
    console.print(Rule(Line(plain(title), style="bold"), align="left", characters="─"))


def print_block(console: Console, block: Block, report: Report | Page) -> None:
    """Print one block of a section."""
    match block:
        case Verdict():
            words = with_path(sentence(block), report.path, console.width)
            print_words(console, Line(words, style=_BOUND_STYLES.get(block.bound, "bold red")))
        case Text():
            print_words(console, Line(with_path(text(block), report.path, console.width)))
        case Bars():
            _print_bars(console, block)
        case Table():
            if block.title:
                console.print(Line(plain(block.title), style="bold"))
            shown, more = first_rows(block)
            print_table(console, shown)
            if more:
                print_block(console, more, report)
        case Interval() | ChangeTree() | Roofline():
            pass  # the verdict says the one in words, the table beside each of the others has its figures
        case Lines():
            print_block(console, lines_table(block), report)
        case Heatmap():
            print_block(console, heatmap_table(block), report)
        case Flame():
            _print_flame(console, block, report.path)
        case Lanes():
            print_block(console, lanes_table(block), report)
        case FindingBlock():
            print_finding(console, block, report.ranks, of_steps=report.of_steps, path=report.path)
        case _:
            assert_never(block)


def _print_bars(console: Console, bars: Bars) -> None:
    width = console.width - 1
    values = [max(part.value, 0.0) for part in bars.parts]
    bar, drawn = Line(), width
    if bars.whole:
        console.print(Line(plain(bars.title)))
        drawn = max(1, round(width * min(sum(values) / bars.whole, 1.0)))
    for size, (fill, style) in zip(cells(values, drawn), _fills(console, bars), strict=True):
        bar.append(fill * size, style=style)
    console.print(bar)
    legend = _legend(console, bars, values, width)
    line = Line()
    for part in legend:  # a line ends between parts, not between a number and its unit
        if line and line.cell_len + 2 + part.cell_len > width:
            console.print(line)
            line = Line()
        line.append("  " if line else "").append_text(part)
    console.print(line)


def _print_flame(console: Console, flame: Flame, run: str) -> None:
    """The heaviest paths, indented; one line each, so that what is below what can be seen."""
    console.print(Line(plain(flame.title), style="bold"))
    print_words(console, Line(text(flame.note)))
    heads, paths = ("total", "share", "self"), heaviest(flame)
    rows = [
        (quantity(path.total, flame.unit), quantity(path.share, "ratio"), quantity(path.own, flame.unit))
        for path in paths
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    head = "".join(f"{name:>{width}}  " for name, width in zip(heads, widths, strict=True))
    console.print(Line(head.rstrip(), style="dim"))
    for path, row in zip(paths, rows, strict=True):
        figures = "".join(f"{words:>{width}}  " for words, width in zip(row, widths, strict=True))
        _print_cut(console, Line(figures).append(f"{'  ' * path.depth}{path.name}"))
    rest = unlisted(flame)
    if rest:
        print_words(console, Line(with_path(text(rest), run, console.width), style="dim"))


def _legend(console: Console, bars: Bars, values: list[float], width: int) -> list[Line]:
    """The parts of a bar in words: with times if all fit on one line, else without."""
    fills = _fills(console, bars)
    labels = [(plain(part.label), quantity(part.value, bars.unit)) for part in bars.parts]
    percents = [quantity(share, "ratio") for share in shares(values)]
    for with_times in (True, False):
        legend = [
            Line(fill, style=style).append(f" {label}{f' {time}' if with_times else ''} {percent}", "default")
            for (fill, style), (label, time), percent in zip(fills, labels, percents, strict=True)
        ]
        if sum(part.cell_len + 2 for part in legend) - 2 <= width:
            break
    return legend


def _fills(console: Console, bars: Bars) -> list[tuple[str, str]]:
    """Fill and color of each part of a bar: they differ without color too."""
    fills = _FILLS if console.encoding.lower().startswith("utf") else _PLAIN_FILLS
    return [(fills[i], _STYLES[i]) for i in looks([part.label for part in bars.parts], len(_STYLES))]


def print_finding(
    console: Console, block: FindingBlock, all_ranks: tuple[int, ...], *, of_steps: bool, path: str = ""
) -> None:
    """Print a finding in full; `all_ranks` are those of the run, `of_steps`: it marks steps, `path`: for commands."""
    finding = block.finding
    console.print()
    print_words(console, Line(title_text(finding.title), style="bold"))
    if finding.gain:
        print_words(console, Line(f"  {gain_text(finding.gain, of_steps=of_steps)}", style="green"))
    _print_field(console, "rule", f"{plain(block.rule)} · cause: {finding.cause}{_ranks(finding.ranks, all_ranks)}")
    if finding.gain:
        _print_field(console, "basis", basis_texts(finding.gain)[0])
    for evidence in finding.evidence:
        _print_field(
            console, "evidence", f"{plain(evidence.label)} {figure_text(evidence)} (table {plain(evidence.source)})"
        )
    for place in finding.where:
        _print_field(console, "where", _place_line(place))
    for advice in finding.advice:
        _print_field(console, "fix", with_path(plain(advice.text, limit=1000), path))
        for line in code_lines(advice.code):
            print_words(console, Line(with_path(line, path), style="cyan"), lead=" " * (_VALUE_COLUMN + 2))
    if finding.trial:
        _print_field(console, "try", plain(finding.trial, limit=1000))


def relative(place: Place) -> Place:
    """Files below the current folder are named from there, as the user would open them."""
    below = Path(place.file).is_relative_to(Path.cwd())
    return replace(place, file=str(Path(place.file).relative_to(Path.cwd()))) if below else place


def _place_line(place: Place) -> Line:
    line = Line(place_text(relative(place)), style="yellow")
    return line.append(f"  {plain(place.text.strip())}", style="default") if place.text.strip() else line


def _ranks(ranks: tuple[int, ...], all_ranks: tuple[int, ...]) -> str:
    if len(all_ranks) <= 1 or not ranks:
        return ""
    return (
        " · all ranks"
        if set(ranks) >= set(all_ranks)
        else f" · rank{'s' if len(ranks) > 1 else ''} {_rank_list(ranks)}"
    )


def _rank_list(ranks: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return f"{shown} and {len(ranks) - 8} more" if len(ranks) > 8 else shown


def _print_field(console: Console, name: str, value: str | Line) -> None:
    """A name and its value, whose lines stay in their column."""
    words = value if isinstance(value, Line) else Line(value)
    print_words(console, words, lead=f"  {name:<{_VALUE_COLUMN - 2}}")


def print_words(console: Console, words: Line, lead: str = "") -> None:
    """Print words folded as `folded` says."""
    for line in folded(console, words, lead):
        console.print(line)


def folded(console: Console, words: Line, lead: str = "") -> list[Line]:
    """Words folded at blanks, not between a number and its unit, nor within a command that has room on a line.

    All lines begin below the words of the first one.
    """
    words, room = words.copy(), console.width - len(lead)
    words.plain = QUANTITY.sub(rf"\1{_NO_BREAK}\2", words.plain)
    words.plain = _COMMAND.sub(
        lambda command: command[0].replace(" ", _NO_BREAK) if len(command[0]) < room else command[0], words.plain
    )
    lines = []
    for number, line in enumerate(words.wrap(console, room)):
        line.rstrip()
        line.plain = line.plain.replace(_NO_BREAK, " ")
        start = lead if number == 0 else " " * len(lead)
        lines.append(Line().append(start, style="dim").append_text(line))
    return lines


def _print_cut(console: Console, line: Line) -> None:
    console.print(line, no_wrap=True, overflow="ellipsis", crop=True)


def _print_lacking(console: Console, report: Report) -> None:
    lacking = report.lacking()
    if not lacking:
        return
    print_title(console, "Not recorded")
    for how, titles in lacking.items():
        print_words(console, Line(f"{', '.join(map(plain, titles))}: {plain(how, limit=400)}"))
