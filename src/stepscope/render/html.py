"""A report as one HTML file: no script, nothing loaded from anywhere, readable in light, dark, narrow and on paper."""

import base64
import hashlib
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from itertools import accumulate
from typing import assert_never

from stepscope.core.finding import Finding, Place
from stepscope.core.report import Bars, Block, FindingBlock, Table, Text, Verdict
from stepscope.render.bars import looks, shares
from stepscope.render.document import Page, Report
from stepscope.render.format import QUANTITY, cell, code_lines, gain_text, place_text, plain, quantity, sentence, text

__all__ = ["page_html", "report_html"]

_COLOURS = 8  # .part0 to .part7 of the style sheet
_BAR_WIDTH = 1000  # units of the drawing, stretched to the page
_UNBROKEN = 12  # characters of a name that never ends a line in its middle
_SHORT = 24  # characters of a cell that needs no folding on a telephone
_LONG = "words long"  # classes of the cells of a column that does
_MANY_COLUMNS = 6  # more than a telephone shows beside a long one
_TOO_MANY_COLUMNS = 8  # more than it shows at all
_SEPARATOR = re.compile(r"<[^>]*>|(?:::|[/\\_,(])(?=\w)")  # or a tag, which stays as it is


def report_html(report: Report) -> str:
    """The whole report as one page."""
    summary = [block for part in report.parts[:1] for block in part.blocks if not isinstance(block, Verdict)]
    lead = f"stepscope report of <code>{_name(report.run.path)}</code>"
    body = _body(report, lead, sentence(report.verdict), summary, report.lacking())
    return _page(f"{plain(report.run.path)} – stepscope", body)


def page_html(page: Page) -> str:
    """A document that is no report, as one page: its first sentence is the heading."""
    first, *rest = page.parts[0].blocks
    heading = text(first) if isinstance(first, Text) else page.name
    return _page(f"{plain(page.subject)} – stepscope", _body(page, _name(page.name), heading, rest, {}))


def _body(
    report: Report | Page, lead: str, heading: str, summary: Iterable[Block], lacking: dict[str, list[str]]
) -> list[str]:
    """What the page is of, its heading, the blocks of its first part, links, and a section for each further part."""
    shown = [part for part in report.parts[1:] if part.blocks]
    links = [(f"part-{number}", part.title) for number, part in enumerate(shown)]
    links += [("not-recorded", "Not recorded")] if lacking else []
    body = [
        "<header>",
        f'<p class="path">{lead}</p>',
        f"<h1>{_words(heading)}</h1>",
        *(_block(block, report) for block in summary),
        f'<nav aria-label="Sections"><ul>{"".join(_link(*link) for link in links)}</ul></nav>',
        "</header>",
        "<main>",
    ]
    for (anchor, title), part in zip(links, shown, strict=False):
        body += [f'<section id="{anchor}">', f"<h2>{_name(title)}</h2>"]
        body += [*(_block(block, report) for block in part.blocks), "</section>"]
    return [*body, *_lacking(lacking), "</main>"]


def _page(title: str, body: Iterable[str]) -> str:
    style = files("stepscope.render").joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
    ]
    return "\n".join([*head, *body, "</body>", "</html>"]) + "\n"


def _block(block: Block, report: Report | Page) -> str:
    match block:
        case Verdict():
            return f"<p><strong>{_words(sentence(block))}</strong></p>"
        case Text():
            return f"<p>{_words(text(block))}</p>"
        case Bars():
            return _bars(block)
        case Table():
            return _table(block)
        case FindingBlock():
            return _finding(block, report)
        case _:
            assert_never(block)


def _bars(bars: Bars) -> str:
    values = [max(part.value, 0.0) for part in bars.parts]
    scale = _BAR_WIDTH * (min(sum(values) / bars.whole, 1.0) if bars.whole else 1.0)
    widths = [share * scale for share in shares(values)]
    starts = [0.0, *accumulate(widths)]
    labels = [
        (_name(part.label), escape(quantity(part.value, bars.unit)), escape(quantity(share, "ratio")))
        for part, share in zip(bars.parts, shares(values), strict=True)
    ]
    colours = looks([part.label for part in bars.parts], _COLOURS)
    rects = (
        f'<rect class="part{colour}" x="{start:.2f}" width="{width:.2f}" height="10">'
        f"<title>{label}: {time}, {share}</title></rect>"
        for colour, start, width, (label, time, share) in zip(colours, starts[:-1], widths, labels, strict=True)
    )
    legend = (
        f'<li><i class="part{colour}"></i>{label} <b>{share}</b> <span>{time}</span></li>'
        for colour, (label, time, share) in zip(colours, labels, strict=True)
    )
    spoken = "; ".join(f"{label} {share}" for label, _, share in labels)
    return (
        f"<figure><figcaption>{_name(bars.title)}</figcaption>"
        f'<svg class="bar" viewBox="0 0 {_BAR_WIDTH} 10" preserveAspectRatio="none" role="img" aria-label="{spoken}">'
        f'{"".join(rects)}</svg><ul class="legend">{"".join(legend)}</ul></figure>'
    )


def _table(table: Table) -> str:
    """A table; on a narrow screen one with much text shows each row as a list of its headings and cells."""
    texts = [[cell(value, unit) for value, (_, unit) in zip(row, table.columns, strict=True)] for row in table.rows]
    kinds = [_kind(table, texts, column) for column in range(len(table.columns))]
    headings = [_name(heading) for heading, _ in table.columns]
    heads = "".join(
        f'<th class="{kind}" scope="col">{heading}</th>' for kind, heading in zip(kinds, headings, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}" data-label="{heading}"><span>{_breakable(_words(text))}</span></td>'
            for kind, heading, text in zip(kinds, headings, row, strict=True)
        )
        + "</tr>"
        for row in texts
    )
    caption = f"<caption>{_name(table.title)}</caption>" if table.title else ""
    many = _MANY_COLUMNS if _LONG in kinds else _TOO_MANY_COLUMNS
    named = any(kind != "number" for kind in kinds)
    stacks = ' class="stacks"' if kinds.count(_LONG) > 1 or (named and len(kinds) >= many) else ""
    return (
        f'<div class="scroll" tabindex="0"><table{stacks}>{caption}<thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _kind(table: Table, texts: list[list[str]], column: int) -> str:
    """Classes of the cells of a column."""
    if table.columns[column][1] is not None or any(isinstance(row[column], int | float) for row in table.rows):
        return "number"
    return _LONG if any(len(row[column]) > _SHORT for row in texts) else "words"


def _finding(block: FindingBlock, report: Report | Page) -> str:
    finding = block.finding
    gain = (
        f'<span class="gain">{_unbroken(escape(gain_text(finding.gain, report.mean_step)))}</span>'
        if finding.gain
        else ""
    )
    parts = [
        '<article class="finding">',
        f'<div class="title"><h3>{escape(plain(finding.title, limit=400))}</h3>{gain}</div>',
        _evidence(finding),
        _places(finding.where),
    ]
    for advice in finding.advice:
        parts.append(f"<p>{_words(plain(advice.text, limit=1000))}</p>")
        if advice.code:
            parts.append(f"<pre><code>{escape(chr(10).join(code_lines(advice.code)))}</code></pre>")
    basis = (
        f"; gain: {_words(plain(finding.gain.basis, limit=400))} ({finding.gain.confidence})" if finding.gain else ""
    )
    parts.append(f'<p class="quiet">Rule <code>{_name(block.rule)}</code>, cause: {finding.cause}{basis}</p>')
    return "\n".join([*(part for part in parts if part), "</article>"])


def _evidence(finding: Finding) -> str:
    items = (
        f"<div><dt>{_name(e.label)} <code>{_name(e.source)}</code></dt>"
        f"<dd>{_unbroken(escape(quantity(e.value, e.unit)))}</dd></div>"
        for e in finding.evidence
    )
    return f'<dl class="evidence">{"".join(items)}</dl>' if finding.evidence else ""


def _places(places: tuple[Place, ...]) -> str:
    items = (
        f"<li><code>{_breakable(escape(place_text(place)))}</code>"
        + (f' <code class="source">{_breakable(_name(place.text.strip()))}</code>' if place.text.strip() else "")
        + "</li>"
        for place in places
    )
    return f'<ul class="places">{"".join(items)}</ul>' if places else ""


def _lacking(lacking: dict[str, list[str]]) -> list[str]:
    if not lacking:
        return []
    items = (f"<li>{_name(', '.join(titles))}: {_words(plain(how, limit=400))}</li>" for how, titles in lacking.items())
    return ['<section id="not-recorded">', "<h2>Not recorded</h2>", f"<ul>{''.join(items)}</ul>", "</section>"]


def _link(anchor: str, title: str) -> str:
    return f'<li><a href="#{anchor}">{_name(title)}</a></li>'


def _name(name: str) -> str:
    return escape(plain(name))


def _words(words: str) -> str:
    """A sentence; what stands between backticks is a command."""
    parts = words.split("`")
    if len(parts) % 2 == 0:
        return _unbroken(escape(words))
    return "".join(f"<code>{escape(part)}</code>" if i % 2 else _unbroken(escape(part)) for i, part in enumerate(parts))


def _unbroken(words: str) -> str:
    """No line ends between a number and its unit."""
    return QUANTITY.sub("\\1\u00a0\\2", words)


def _breakable(words: str) -> str:
    """A long path or name may end a line after a separator, rather than anywhere."""
    if len(words) <= _UNBROKEN:
        return words
    return _SEPARATOR.sub(lambda found: found[0] if found[0].startswith("<") else f"{found[0]}<wbr>", words)
