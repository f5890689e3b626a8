"""A report as one HTML file: no script, nothing loaded from anywhere, readable in light, dark, narrow and on paper."""

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from itertools import accumulate
from typing import assert_never

from stepscope.core.finding import Finding, Place
from stepscope.core.report import Bars, Block, FindingBlock, Table, Text, Verdict
from stepscope.render.bars import looks, shares
from stepscope.render.document import Report
from stepscope.render.format import cell, code_lines, gain_text, place_text, plain, quantity, sentence, text

__all__ = ["report_html"]

_COLOURS = 8  # .part0 to .part7 of the style sheet
_BAR_WIDTH = 1000  # units of the drawing, stretched to the page


def report_html(report: Report) -> str:
    """The whole report as one page."""
    style = files("stepscope.render").joinpath("report.css").read_text(encoding="utf-8")
    shown = [part for part in report.parts[1:] if part.blocks]
    lacking = report.lacking()
    links = [(f"part-{number}", part.title) for number, part in enumerate(shown)]
    links += [("not-recorded", "Not recorded")] if lacking else []
    body = [
        "<header>",
        f'<p class="path">stepscope report of <code>{_name(report.run.path)}</code></p>',
        f"<h1>{_words(sentence(report.verdict))}</h1>",
        *(
            _block(block, report)
            for part in report.parts[:1]
            for block in part.blocks
            if not isinstance(block, Verdict)
        ),
        f'<nav aria-label="Sections"><ul>{"".join(_link(*link) for link in links)}</ul></nav>',
        "</header>",
        "<main>",
    ]
    for (anchor, title), part in zip(links, shown, strict=False):
        body += [f'<section id="{anchor}">', f"<h2>{_name(title)}</h2>"]
        body += [*(_block(block, report) for block in part.blocks), "</section>"]
    body += [*_lacking(lacking), "</main>"]
    return _page(f"{plain(report.run.path)} – stepscope", style, body)


def _page(title: str, style: str, body: Iterable[str]) -> str:
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


def _block(block: Block, report: Report) -> str:
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
    widths = [share * _BAR_WIDTH for share in shares(values)]
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
    kinds = [
        "number" if unit is not None or any(isinstance(row[i], int | float) for row in table.rows) else "words"
        for i, (_, unit) in enumerate(table.columns)
    ]
    units = [unit for _, unit in table.columns]
    heads = "".join(
        f'<th class="{kind}" scope="col">{_name(heading)}</th>'
        for kind, (heading, _) in zip(kinds, table.columns, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}">{_words(cell(value, unit))}</td>'
            for kind, unit, value in zip(kinds, units, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{_name(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="scroll" tabindex="0"><table>{caption}<thead><tr>{heads}</tr></thead>'
        f"<tbody>\n{rows}\n</tbody></table></div>"
    )


def _finding(block: FindingBlock, report: Report) -> str:
    finding = block.finding
    gain = f'<span class="gain">{escape(gain_text(finding.gain, report.mean_step))}</span>' if finding.gain else ""
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
        f"<dd>{escape(quantity(e.value, e.unit))}</dd></div>"
        for e in finding.evidence
    )
    return f'<dl class="evidence">{"".join(items)}</dl>' if finding.evidence else ""


def _places(places: tuple[Place, ...]) -> str:
    items = (
        f"<li><code>{escape(place_text(place))}</code>"
        + (f" <code>{_name(place.text.strip())}</code>" if place.text.strip() else "")
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
        return escape(words)
    return "".join(f"<code>{escape(part)}</code>" if i % 2 else escape(part) for i, part in enumerate(parts))
