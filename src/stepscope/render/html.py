"""The page as a file: the app with its data inside.

Everything is inside, nothing is loaded from anywhere, and no script runs but the one whose hash the policy names. Data
are JSON in a block that no browser runs; the app sets every name as text.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from html import escape

from stepscope.core.report import Text
from stepscope.render.app_page import LANGUAGES, NO_SCRIPT, app_file, as_data, framed
from stepscope.render.document import Page, Report
from stepscope.render.format import plain, text
from stepscope.render.json import page_document, report_document
from stepscope.render.verdict import sentence

__all__ = ["page_html", "report_html"]


def report_html(report: Report, timeline: Mapping[str, object] | None = None) -> str:
    """The whole report as one file; with the excerpt of the timeline that it shows."""
    title = f"{plain(report.run.path)} – stepscope"
    return _file(title, sentence(report.verdict), report_document(report), timeline)


def page_html(page: Page) -> str:
    """A document that is no report, as one file."""
    first = page.parts[0].blocks[0] if page.parts else None
    summary = text(first) if isinstance(first, Text) else plain(page.name)
    return _file(f"{plain(page.subject)} – stepscope", summary, page_document(page))


def _file(title: str, summary: str, document: dict[str, object], timeline: Mapping[str, object] | None = None) -> str:
    script, style = app_file("app.js"), app_file("app.css")
    if "</script" in script.lower() or "</style" in style.lower():
        raise ValueError("the app would end its own element")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f'<meta name="description" content="{escape(summary)}">',
        f"<style>{style}</style>",
    ]
    body = f"<noscript><h1>{escape(summary)}</h1><p>{NO_SCRIPT}</p></noscript>"
    data = f'<script type="application/json" id="data">{as_data(document)}</script>'
    more = "".join(_packed(f"words-{code}", app_file(f"{code}.json")) for code in LANGUAGES)
    if timeline:
        more += _packed("timeline-data", json.dumps(timeline, allow_nan=False, separators=(",", ":")))
    return framed(title, head, f"{body}\n{data}{more}\n<script>{script}</script>")


def _packed(name: str, text: str) -> str:
    """An element with JSON, compressed: of many numbers a tenth is left, of words a third."""
    data = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'\n<script type="application/octet-stream" id="{name}">{data}</script>'


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
