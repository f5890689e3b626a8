"""The page: well formed, self-contained, and nothing in it but what we put there."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

from stepscope.core.report import Table
from stepscope.render.document import Part, Report
from stepscope.render.html import report_html

VOID = {"meta", "link", "br", "hr", "img", "wbr"}


class Tags(HTMLParser):
    """All tags and attributes of a page, and its text with ordinary blanks; the tags must close in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data.replace("\u00a0", " ")


def test_a_report(report: Report) -> None:
    page = report_html(report)
    tags = Tags(page)
    assert "Input-bound: 63 % of the mean step of 41.2 ms waits for the next batch." in tags.text
    assert "saves 12–20 ms of the mean step (8–13 %)" in tags.text
    assert "train.py:41 in __getitem__" in tags.text
    assert "63\u00a0% of the mean step of 41.2\u00a0ms waits" in page, "no line ends between a number and its unit"
    assert tags.tags.count("article") == 5
    assert tags.tags.count("rect") == 3


def test_a_name_may_be_folded_after_its_separators_and_a_short_one_not(report: Report) -> None:
    file, operator = "/home/me/long_name/train.py", "aten::mm"
    table = Table("", (("line", None), ("name", None)), ((file, operator),))
    part = Part(name="x", title="X", blocks=(table,))
    page = report_html(replace(report, parts=(*report.parts, part)))
    assert "/<wbr>home/<wbr>me/<wbr>long_<wbr>name/<wbr>train.py" in page
    assert operator in page
    assert file in Tags(page).text


def test_the_page_may_do_nothing_but_look_as_it_does(report: Report) -> None:
    page = report_html(report)
    style = re.search("<style>(.*?)</style>", page, re.S)
    assert style
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\"" in page
    tags = Tags(page)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(tags.tags)
    names = {name for name, _ in tags.attributes}
    assert not {"style", "src"} & names
    assert not [name for name in names if name.startswith("on")]
    assert all((value or "").startswith("#") for name, value in tags.attributes if name == "href")


def test_hostile_names_stay_text(hostile_report: Report) -> None:
    page = report_html(hostile_report)
    tags = Tags(page)
    assert "script" not in tags.tags
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert len(page) < 60_000
    page.encode()


def test_an_empty_report(empty_report: Report) -> None:
    assert "Unknown: no step was recorded." in Tags(report_html(empty_report)).text
