"""The page as a file: everything inside, nothing from elsewhere, one script whose hash the policy names."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stepscope.core.errors import BadInput
from stepscope.render import app_page
from stepscope.render.app_page import app_file, served_html
from stepscope.render.document import Report
from stepscope.render.html import report_html
from stepscope.render.json import dumps, report_document


class Tags(HTMLParser):
    """All tags of a page with their attributes, and what stands in its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.inside.setdefault(self.tags[-1][0], []).append(data)


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def data_of(page: str) -> object:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


def test_its_data_are_those_of_the_json_report(report: Report) -> None:
    assert data_of(report_html(report)) == json.loads(dumps(report_document(report)))


def test_it_may_run_its_own_script_and_nothing_else(report: Report) -> None:
    tags = Tags(report_html(report)).tags
    (policy,) = (one["content"] for tag, one in tags if one.get("http-equiv") == "Content-Security-Policy")
    assert policy == (
        f"default-src 'none'; script-src {hash_of(app_file('app.js'))}; style-src {hash_of(app_file('app.css'))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_it_loads_nothing_and_has_no_handlers(report: Report) -> None:
    tags = Tags(report_html(report)).tags
    packed = {"type": "application/octet-stream", "id": "words-zh"}
    assert [one for tag, one in tags if tag == "script"] == [{"type": "application/json", "id": "data"}, packed, {}]
    names = {name for _, one in tags for name in one}
    assert not {"src", "href", "style"} & names
    assert not [name for name in names if name.startswith("on")]


def test_hostile_names_cannot_leave_the_data(hostile_report: Report) -> None:
    page = report_html(hostile_report)
    assert len([tag for tag, _ in Tags(page).tags if tag == "script"]) == 3
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    page.encode()
    assert data_of(page) == json.loads(dumps(report_document(hostile_report)))


def test_without_scripts_it_still_says_the_verdict(report: Report, empty_report: Report) -> None:
    assert "<noscript><h1>Data-loading bound: 63 % of each 41.2 ms step waits for data." in report_html(report)
    assert "<noscript><h1>Unknown: no step was recorded." in report_html(empty_report)


def test_the_title_is_safe(report: Report) -> None:
    page = report_html(replace(report, run=replace(report.run, path="</title><b>")))
    assert "<title>&lt;/title&gt;&lt;b&gt; – stepscope</title>" in page


def test_the_served_page_asks_its_own_server_only() -> None:
    links = [one[name] for _, one in Tags(served_html()).tags for name in ("src", "href") if name in one]
    assert links == ["data:,", "static/app.css", "static/app.js"]


def test_an_installation_without_the_page_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(app_page, "files", lambda _package: tmp_path)
    with pytest.raises(BadInput, match=r"(?s)built without npm.*install Node\.js"):
        app_file("app.js")


def test_the_licenses_of_what_is_inside_are_beside_it() -> None:
    text = app_file("LICENSES.txt")
    for package in ("echarts 6", "zrender 6", "tabulator-tables 6", "tslib 2"):
        assert package in text
