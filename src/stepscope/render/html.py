"""The page: one app, in a file with its data inside, or served by `stepscope view`.

The app is TypeScript in web-app/, built by the package build into static/. In the file everything is inside, nothing is
loaded from anywhere, and no script runs but the one whose hash the policy names. Data are JSON in a block that no
browser runs; the app sets every name as text.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files

from stepscope.core.errors import BadInput
from stepscope.core.report import Text
from stepscope.render.document import Page, Report
from stepscope.render.format import plain, sentence, text
from stepscope.render.json import finite, page_document, report_document

__all__ = ["STATIC", "app_file", "page_html", "report_html", "served_html"]

LANGUAGES = ("zh",)
"""Languages of the page beside English: what reports say in each is a file that is opened when it is chosen."""

STATIC = {
    "app.js": "text/javascript", "app.css": "text/css", **{f"{code}.json": "application/json" for code in LANGUAGES}
}  # fmt: skip
"""Files of the app, and their types."""

_NOSCRIPT = "This page needs JavaScript. `stepscope report` prints the same in a terminal, --format markdown as text."


def report_html(report: Report, timeline: Mapping[str, object] | None = None) -> str:
    """The whole report as one file; with the excerpt of the timeline that it shows."""
    title = f"{plain(report.run.path)} – stepscope"
    return _file(title, sentence(report.verdict), report_document(report), timeline)


def page_html(page: Page) -> str:
    """A document that is no report, as one file."""
    first = page.parts[0].blocks[0] if page.parts else None
    summary = text(first) if isinstance(first, Text) else plain(page.name)
    return _file(f"{plain(page.subject)} – stepscope", summary, page_document(page))


def served_html(beside: Mapping[str, str] | None = None) -> str:
    """The page that fetches its data from the server it is from; `beside` are the runs of a comparison, by address."""
    head = [
        '<link rel="icon" href="data:,">',
        '<link rel="stylesheet" href="static/app.css">',
        '<script src="static/app.js" defer></script>',
    ]
    body = f"<noscript>{_NOSCRIPT}</noscript>"
    if beside:
        listed = [{"key": key, "path": path} for key, path in beside.items()]
        body += f'\n<script type="application/json" id="beside">{_data(listed)}</script>'
    return _page("stepscope", head, body)


def app_file(name: str) -> str:
    """A file of the app. Raises BadInput where the package was built without it."""
    file = files("stepscope.render").joinpath("static", name)
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput(
            "the page", "is not part of this installation, which was built without npm",
            next_step="install Node.js 20 or newer with npm and build again: pip install --force-reinstall .",
        ) from None  # fmt: skip


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
    body = f"<noscript><h1>{escape(summary)}</h1><p>{_NOSCRIPT}</p></noscript>"
    data = f'<script type="application/json" id="data">{_data(document)}</script>'
    more = "".join(_packed(f"words-{code}", app_file(f"{code}.json")) for code in LANGUAGES)
    if timeline:
        more += _packed("timeline-data", json.dumps(timeline, allow_nan=False, separators=(",", ":")))
    return _page(title, head, f"{body}\n{data}{more}\n<script>{script}</script>")


def _page(title: str, head: list[str], body: str) -> str:
    lines = [
        "<!doctype html>",
        '<html lang="en" data-theme="">',
        "<head>",
        '<meta charset="utf-8">',
        *head,
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        "</head>",
        "<body>",
        '<div id="app"></div>',
        body,
        "</body>",
        "</html>",
    ]
    return "\n".join(lines) + "\n"


def _data(document: object) -> str:
    """JSON in which nothing can end the element it stands in."""
    written = json.dumps(finite(document), allow_nan=False, separators=(",", ":"))
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _packed(name: str, text: str) -> str:
    """An element with JSON, compressed: of many numbers a tenth is left, of words a third."""
    data = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'\n<script type="application/octet-stream" id="{name}">{data}</script>'


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
