"""What a person reads on a terminal."""

import io
import re

import pytest

from stepscope.core.report import Table
from stepscope.render.document import Report
from stepscope.render.tables import print_table
from stepscope.render.terminal import console_for, print_page
from stepscope.render.terminal_card import print_report


class Terminal(io.StringIO):
    """A terminal of the width in COLUMNS."""

    def isatty(self) -> bool:
        return True


def printed(report: Report) -> str:
    stream = io.StringIO()
    print_report(console_for(stream), report)
    return stream.getvalue()


@pytest.mark.parametrize(("asked", "width"), [(None, 100), ("", 100), ("wide", 100), ("0", 100), ("72", 72), ("5", 60)])
def test_a_pipe_gets_plain_text_of_100_columns_or_as_many_as_columns_says(
    report: Report, monkeypatch: pytest.MonkeyPatch, asked: str | None, width: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if asked is not None:
        monkeypatch.setenv("COLUMNS", asked)
    text = printed(report)
    assert "\x1b" not in text
    assert console_for(io.StringIO()).width == width
    assert max(map(len, text.splitlines())) <= width


def test_the_full_report_holds_every_finding_and_what_was_not_recorded(report: Report) -> None:
    text = printed(report)
    for number in range(1, 6):
        assert f"Problem {number}" in text
    assert "    num_workers=2," in text
    assert "basis     estimated: the wait without loading" in text
    assert re.search("aten::addmm +1,240 +3 ms\n", text)
    assert "Kernels: record a window: `stepscope run -- CMD`" in text


def test_an_empty_report_says_what_is_unknown(empty_report: Report) -> None:
    assert printed(empty_report) == "Unknown: no step was recorded.\n"


def test_no_name_reaches_the_terminal_as_it_is(hostile_report: Report) -> None:
    text = printed(hostile_report)
    assert "\x1b" not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert len(text) < 30_000
    text.encode()


def test_numbers_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    columns = (("rank", None), ("operator", None), *((f"column {i}", "ns") for i in range(9)))
    row = (0, "kernel<" + "float," * 40 + ">", *(1_234_567 + i for i in range(9)))
    stream = Terminal()
    print_table(console_for(stream), Table("", columns, (row,)))  # type: ignore[arg-type]
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert text.count("1.23 ms") == 9
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("operator") == text.count("kernel<")
    assert text.count("operator") > 1


def test_a_page_is_drawn_as_markdown() -> None:
    stream = io.StringIO()
    print_page(console_for(stream), "# rule\n\n## What it finds\nSteps with `x`.")
    assert "What it finds" in stream.getvalue()
    assert "##" not in stream.getvalue()
