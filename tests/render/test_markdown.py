"""Markdown shows names as they are, whatever they hold."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from stepscope.core.finding import Advice, Place
from stepscope.core.report import Overlap, Table
from stepscope.render.document import Report
from stepscope.render.markdown import escape, report_markdown, table_markdown

GITHUB = MarkdownIt("gfm-like", {"linkify": False})


def drawn(markdown: str) -> str:
    html: str = GITHUB.render(markdown)
    return html


def test_a_report(report: Report) -> None:
    text = report_markdown(report)
    assert "**Data-loading bound: 63 % of each 41.2 ms step waits for data.**" in text
    assert "| data wait | 26 ms | 63 % |" in text
    assert "### Problem 1 takes 26 ms\n\n**could save 8–13 % (12–20 ms per step)**" in text
    assert "- `train.py:41 in __getitem__`: `image = resize(image)`" in text
    assert "```python\nDataLoader(\n    dataset,\n    num_workers=2,\n)\n```" in text
    assert "| aten::addmm | 1,240 | 3 ms |\n| aten::relu | 12 | – |" in text
    assert "- Kernels: record a window: `stepscope run -- CMD`" in text
    html = drawn(text)
    assert html.count("<table>") == 2
    assert html.count("<pre>") == 3 * 2 + 5, "a place and code in each card, the code of each finding"


def test_an_empty_report(empty_report: Report) -> None:
    assert report_markdown(empty_report) == "# stepscope report: \n\n**Unknown: no step was recorded.**\n"


def test_hostile_names_make_no_markup(hostile_report: Report) -> None:
    text = report_markdown(hostile_report)
    html = drawn(text)
    assert not re.search("<(script|a|img)\\b", html)
    assert html.count("<table>") == 2
    assert {line.count("</t") for line in html.splitlines() if line.startswith("<td")} == {1}
    assert all(
        row.count("<td") == 2 or row.count("<td") == 3
        for row in re.findall("<tr>.*?</tr>", html, re.S)[1:]
        if "<td" in row
    )
    assert len(text) < 40_000


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=40))
def test_a_name_is_shown_as_it_is(name: str) -> None:
    html = drawn(escape(name))
    text = re.sub("</?p>", "", html).strip()
    assert not re.search("<[a-z]", text)
    unescaped = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
    assert unescaped == name.strip()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40))
def test_a_cell_stays_a_cell(name: str) -> None:
    html = drawn(table_markdown(Table("", (("name", None), ("time", "ns")), ((name, 1),))))
    assert html.count("<td") == 2


def test_the_cards_go_first_and_everything_else_is_folded_up(report: Report) -> None:
    block = report.findings[0]
    place = Place(file="train.py", line=41, share=0.5, of="loading time", first=40, around=("def f():", "    g()"))
    advice = (Advice(text="Look", code="nvidia-smi", language="shell"),)
    finding = replace(block.finding, where=(place,), advice=advice, trial="stepscope tune loader -- python t.py")
    findings = (replace(block, finding=finding), *report.findings[1:])
    overlap = Overlap((0, 1), 30_000_000, 150_000_000)
    text = report_markdown(replace(report, findings=findings, overlaps=(overlap,)))
    card, _, rest = text.partition("<details>")
    assert card.count("\n### ") == 3
    assert "`train.py:41`: 50 % of loading time\n\n```text\n  40  def f():\n▶ 41      g()\n```" in card
    assert "- **Fix** Look\n\n  ```shell\n  nvidia-smi\n  ```" in card
    assert "- **Basis** estimated: the wait without loading\n- **Try** `stepscope tune loader -- python t.py`" in card
    assert "1 and 2 overlap: together at most 20 % (30 ms per step)." in card
    assert "2 more findings in the full report." in card
    assert "`stepscope view stepscope-runs/train`" in card
    assert rest.count("</details>") == rest.count("<details>") + 1 == 3
    assert "<h3>" in drawn(rest)
    assert report_markdown(report) == report_markdown(report)
