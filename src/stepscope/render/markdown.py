"""A report, or the table of an analysis, as Markdown (GitHub's dialect). Names are escaped: they are data."""

import html
import re
from typing import assert_never

from stepscope.core.finding import Finding
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
from stepscope.render.bars import shares
from stepscope.render.card import Card, cards, footer, overlap_text, rest_text
from stepscope.render.charts import first_rows, heatmap_table, lanes_table, lines_table
from stepscope.render.commands import with_path
from stepscope.render.document import Page, Report
from stepscope.render.flames import heaviest, unlisted
from stepscope.render.format import (
    NAME_LIMIT,
    basis_texts,
    cell,
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
from stepscope.render.verdict import sentence

__all__ = ["escape", "page_markdown", "report_markdown", "table_markdown"]

_MARKUP = re.compile(r"[\\`*_\[\]<>#|~&@$]|:(?=//)|(?<=www)\.")  # what has a meaning inside a line
_COMMAND = re.compile(r"(?<!`)`([^`|\\ ](?:[^`|\\]*[^`|\\ ])?)`(?!`)")  # a command of ours within a cell
_COMMAND_LIMIT = 2_000  # letters: one that is cut cannot be pasted
_LINE_START = re.compile(r"^(\d*)([.)=:+-])")


def escape(name: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _LINE_START.sub(r"\1\\\2", _inline(name.strip()))


def report_markdown(report: Report) -> str:
    """The whole report as one document: the first screen, then everything else folded up."""
    lines = [f"# stepscope report: {escape(plain(report.run.path))}"]
    for block in (block for part in report.parts[:1] for block in part.blocks):
        lines += ["", *_block(block, report)]
    for card in cards(report):
        lines += ["", *_card(card)]
    more = [text for overlap in report.overlaps if (text := overlap_text(overlap, report))]
    for text in (*more, *([rest_text(report)] if rest_text(report) else ())):
        lines += ["", f"{escape(text)}."]
    if report.run.path:
        lines += ["", " · ".join(_command(text) for text in footer(report))]
    for part in report.parts[1:]:
        if part.blocks:
            lines += _folded(part.title, [line for block in part.blocks for line in ("", *_block(block, report))])
    lacking = [
        f"- {escape(plain(', '.join(titles)))}: {_with_commands(how)}" for how, titles in report.lacking().items()
    ]
    lines += _folded("Not recorded", ["", *lacking]) if lacking else []
    return "\n".join(lines) + "\n"


def _folded(title: str, lines: list[str]) -> list[str]:
    return ["", f"<details><summary>{html.escape(plain(title))}</summary>", *lines, "", "</details>"]


def _command(text: str) -> str:
    return _code(text, _COMMAND_LIMIT) if text.startswith("stepscope ") else escape(text)


def _card(card: Card) -> list[str]:
    lines = [f"### {card.number}. {_inline(card.title)}", ""]
    lines += [f"**{escape(card.gain)}**", ""] if card.gain else []
    if card.place:
        lines += [_code(place_text(card.place)) + (f": {escape(card.share)}" if card.share else "")]
    if card.source:
        width = max(len(str(line.number)) for line in card.source)
        signs = [f"{'▶' if line.marked else ' '} {line.number:>{width}}  {line.text}" for line in card.source]
        lines += ["", *_fenced(signs, "text"), ""]
    fix = [f"- **Fix** {_with_commands(card.fix)}"] if card.fix else []
    if card.code:
        more = [f"# … {counted(card.more_code, 'more line')}"] if card.more_code else []
        fix += ["", *(f"  {line}" for line in _fenced([*card.code, *more], card.language)), ""]
    lines += fix
    lines += [f"- **Why** {escape('; '.join(card.why))}"] if card.why else []
    lines += [f"- **Basis** {escape(card.basis)}"] if card.basis else []
    lines += [f"- **Try** {_code(card.trial, _COMMAND_LIMIT)}"] if card.trial else []
    return lines


def page_markdown(page: Page) -> str:
    """A document that is no report, short enough for a comment: all but its first part is folded up.

    Bars of one scale are left out: as tables they would only repeat the one that compares them.
    """
    lines = [f"### {escape(plain(page.name))}"]
    for number, part in enumerate(page.parts):
        if number:
            lines += ["", f"<details><summary>{html.escape(plain(part.title))}</summary>"]
        for block in part.blocks:
            if block is page.parts[0].blocks[0] and isinstance(block, Text):
                lines += ["", f"**{_with_commands(text(block))}**"]
            elif not (isinstance(block, Bars) and block.whole):
                drawn = _block(block, page)
                lines += ["", *drawn] if drawn else []
        lines += ["", "</details>"] if number else []
    return "\n".join(lines) + "\n"


def table_markdown(table: Table) -> str:
    """A table; numbers are aligned to the right."""
    return "\n".join(_table(table)) + "\n"


def _block(block: Block, report: Report | Page) -> list[str]:
    match block:
        case Verdict():
            return [f"**{_with_commands(sentence(block))}**"]
        case Text():
            return [_with_commands(with_path(text(block), report.path))]
        case Bars():
            return _bars(block)
        case Table():
            title = [f"**{escape(plain(block.title))}**", ""] if block.title else []
            shown, more = first_rows(block)
            return [*title, *_table(shown), *(["", *_block(more, report)] if more else [])]
        case Interval() | ChangeTree() | Roofline():
            return []  # the verdict says the one in words, the table beside each of the others has its figures
        case Lines():
            return _block(lines_table(block), report)
        case Heatmap():
            return _block(heatmap_table(block), report)
        case Flame():
            return _flame(block, report.path)
        case Lanes():
            return _block(lanes_table(block), report)
        case FindingBlock():
            return _finding(block.rule, block.finding, report)
        case _:
            assert_never(block)


def _table(table: Table) -> list[str]:
    headings = [escape(plain(heading)) or " " for heading, _ in table.columns]
    numbers = [
        unit is not None or any(isinstance(row[i], int | float) for row in table.rows)
        for i, (_, unit) in enumerate(table.columns)
    ]
    units = [unit for _, unit in table.columns]
    rows = [[_cell(cell(value, unit).strip()) for value, unit in zip(row, units, strict=True)] for row in table.rows]
    ruler = ["---:" if number else ":---" for number in numbers]
    return [f"| {' | '.join(texts)} |" for texts in (headings, ruler, *rows)]


def _bars(bars: Bars) -> list[str]:
    values = [max(part.value, 0.0) for part in bars.parts]
    rows = tuple((part.label, part.value, share) for part, share in zip(bars.parts, shares(values), strict=True))
    return _table(Table("", ((bars.title, None), ("time", bars.unit), ("share", "ratio")), rows))


def _flame(flame: Flame, run: str) -> list[str]:
    """The heaviest paths as a list within a list."""
    lines = [f"**{escape(plain(flame.title))}**", "", _with_commands(text(flame.note)), ""]
    for path in heaviest(flame):
        figures = f"{quantity(path.total, flame.unit)}, {quantity(path.share, 'ratio')}"
        own = f", itself {quantity(path.own, flame.unit)}" if path.own and path.own < path.total else ""
        lines.append(f"{'  ' * path.depth}- {escape(path.name)}: {figures}{own}")
    rest = unlisted(flame)
    return [*lines, "", _with_commands(with_path(text(rest), run))] if rest else lines


def _finding(rule: str, finding: Finding, report: Report | Page) -> list[str]:
    lines = [f"### {escape(title_text(finding.title))}", ""]
    if finding.gain:
        gain = escape(gain_text(finding.gain, of_steps=report.of_steps))
        lines += [f"**{gain}**, {_with_commands(basis_texts(finding.gain)[0])}.", ""]
    lines += [f"Rule {_code(rule)}, cause: {escape(finding.cause)}.", ""]
    lines += [
        f"- {escape(plain(e.label))}: {escape(figure_text(e))} (table {_code(e.source)})" for e in finding.evidence
    ]
    for place in finding.where:
        source = f": {_code(place.text.strip())}" if place.text.strip() else ""
        lines.append(f"- {_code(place_text(place))}{source}")
    for advice in finding.advice:
        lines += ["", _with_commands(with_path(plain(advice.text, limit=1000), report.path))]
        if advice.code:
            code = [with_path(line, report.path) for line in code_lines(advice.code)]
            lines += ["", *_fenced(code, advice.language)]
    return lines


def _fenced(lines: list[str], language: str) -> list[str]:
    """A block of code in a fence longer than any run of backticks in it."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *lines, fence]


def _code(name: str, limit: int = NAME_LIMIT) -> str:
    """A name as a span of code, whatever backticks it holds."""
    name = plain(name, limit)
    longest = max((len(run) for run in re.findall("`+", name)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if name.startswith("`") or name.endswith("`") or not name else ""
    return f"{fence}{pad}{name}{pad}{fence}"


def _with_commands(words: str) -> str:
    """A sentence of ours: what stands between backticks stays code, the rest is escaped."""
    parts = re.split(r"`([^`]+)`", plain(words, limit=2000).strip())
    drawn = (_code(part, _COMMAND_LIMIT) if i % 2 else _inline(part) for i, part in enumerate(parts))
    return _LINE_START.sub(r"\1\\\2", "".join(drawn))


def _cell(words: str) -> str:
    """A cell in which commands stay code; a bar or backslash would end or change it, and so is escaped as a name."""
    parts = _COMMAND.split(words)
    return "".join(f"`{part}`" if i % 2 else _inline(part) for i, part in enumerate(parts))


def _inline(words: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", words)
