"""The page of `stepscope view` and the files of its app, which is TypeScript in web-app/, built into static/.

Nothing of reports is imported here: the page is served before a run is read.
"""

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files

from stepscope.core.errors import BadInput
from stepscope.render.finite import finite

__all__ = ["LANGUAGES", "NO_SCRIPT", "STATIC", "app_file", "as_data", "framed", "served_html"]

LANGUAGES = ("zh",)
"""Languages of the page beside English: what reports say in each is a file that is opened when it is chosen."""

STATIC = {
    "app.js": "text/javascript", "app.css": "text/css", **{f"{code}.json": "application/json" for code in LANGUAGES}
}  # fmt: skip
"""Files of the app, and their types."""

NO_SCRIPT = "This page needs JavaScript. `stepscope report` prints the same in a terminal, --format markdown as text."
"""What stands there without JavaScript."""


def served_html(beside: Mapping[str, str] | None = None) -> str:
    """The page that fetches its data from the server it is from; `beside` are the runs of a comparison, by address."""
    head = [
        '<link rel="icon" href="data:,">',
        '<link rel="stylesheet" href="static/app.css">',
        '<script src="static/app.js" defer></script>',
    ]
    body = f"<noscript>{NO_SCRIPT}</noscript>"
    if beside:
        listed = [{"key": key, "path": path} for key, path in beside.items()]
        body += f'\n<script type="application/json" id="beside">{as_data(listed)}</script>'
    return framed("stepscope", head, body)


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


def framed(title: str, head: list[str], body: str) -> str:
    """A page with the place where the app draws."""
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


def as_data(document: object) -> str:
    """JSON in which nothing can end the element it stands in."""
    written = json.dumps(finite(document), allow_nan=False, separators=(",", ":"))
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
