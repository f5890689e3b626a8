"""The first screen on a terminal: everything that matters on at most 40 lines, in any width, with any names."""

import fcntl
import io
import os
import pty
import re
import struct
import termios
from dataclasses import replace

import pytest

from stepscope.core.finding import Advice, Evidence, Place, Title
from stepscope.core.report import FindingBlock, Overlap, Table, Text
from stepscope.render.document import Report
from stepscope.render.terminal import console_for
from stepscope.render.terminal_card import LINES, print_card

MS = 1_000_000
AROUND = ("def __getitem__(self, index):", "    image = resize(image)", "    return image")


class Terminal(io.StringIO):
    """A terminal of the width in COLUMNS."""

    def isatty(self) -> bool:
        return True


def screen(report: Report, width: int = 100) -> list[str]:
    stream = io.StringIO()
    console = console_for(stream)
    console.width = width
    print_card(console, report)
    return stream.getvalue().splitlines()


def with_source(report: Report, **fields: object) -> Report:
    place = Place(
        file="/home/me/train.py", line=41, symbol="__getitem__", text="image = resize(image)", share=0.57,
        of="loading time", first=40, around=AROUND,
    )  # fmt: skip
    findings = tuple(
        FindingBlock(block.rule, replace(block.finding, where=(place,), **fields))  # type: ignore[arg-type]
        for block in report.findings
    )
    return replace(report, findings=findings)


def test_a_card_says_what_where_what_to_do_and_how_much(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    print_card(console_for(stream), with_source(report, trial="stepscope tune loader -- python train.py"))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()).splitlines()
    assert lines[0] == "Data-loading bound: 63 % of each 41.2 ms step waits for data."
    assert set(lines[1]) == {"█", "▓", "·"}
    assert lines[1].count("█") == round(79 * 26 / 41.2)
    at = lines.index("1  Problem 1 takes 26 ms                   could save 8–13 % (12–20 ms per step)")
    assert lines[at + 1 : at + 13] == [
        "   /home/me/train.py:41 in __getitem__                      57 % of loading time",
        "       40  def __getitem__(self, index):",
        "     ▶ 41      image = resize(image)",
        "       42      return image",
        "   Fix    Load in workers",
        "          DataLoader(",
        "              dataset,",
        "              num_workers=2,",
        "          )",
        "   Why    data wait 26 ms; share of the step 63 %",
        "   Basis  estimated: the wait without loading",
        "   Try    stepscope tune loader -- python train.py",
    ]
    assert lines[-3:] == [
        "",
        "0 checks clear, 1 needs more data",
        "stepscope report stepscope-runs/train --full · stepscope view stepscope-runs/train",
    ] or lines[-1].startswith("stepscope view")


LONG = Title(
    "A transform of the user with a long name takes {} of data-loading CPU time in each of the workers", ("9",)
)
FACTS = tuple(
    Evidence(label=f"a figure with a name, number {i}", value=i, unit="count", source="steps") for i in range(9)
)
CODE = "\n".join(f"line_{i} = {i}" for i in range(4))


@pytest.mark.parametrize("width", [80, 100])
def test_three_long_findings_fit_on_a_screen(report: Report, width: int) -> None:
    advice = (Advice(text="Replace the transform by one that works on whole batches of uint8 images", code=CODE),)
    long = with_source(report, title=LONG, evidence=FACTS, advice=advice)
    long = replace(long, overlaps=(Overlap((0, 1, 2), 30 * MS, 150 * MS),))
    lines = screen(long, width)
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= width
    assert sum("▶ 41" in line for line in lines) == 3
    assert sum(line.startswith("   Fix ") for line in lines) == 3
    assert "line_3 = 3" in "".join(lines)
    assert any("overlap: together at most 20 % (30 ms per step)." in line for line in lines)
    assert not any(re.search(r"number \d …|number…", line) for line in lines), "a fact is whole or left out"


def test_one_long_finding_has_room(report: Report) -> None:
    lines = screen(with_source(replace(report, findings=report.findings[:1]), evidence=FACTS))
    why = " ".join(line.strip() for line in lines[lines.index(next(x for x in lines if "Why" in x)) :])
    assert "a figure with a name, number 2 2" in why


@pytest.mark.parametrize("width", [60, 72, 80, 120, 200])
def test_no_line_is_wider_than_the_screen(report: Report, width: int) -> None:
    place = Place(file=f"/home/me/{'deep/' * 40}train.py", line=41, symbol="f", share=0.1, of="the step")
    lines = screen(with_source(report), width)
    assert max(map(len, lines)) <= width
    (block, *_) = report.findings
    deep = replace(report, findings=(FindingBlock(block.rule, replace(block.finding, where=(place,))),))
    (line,) = [line for line in screen(deep, width) if "train.py:41 in f" in line]
    assert line.endswith("10 % of the step") and len(line) <= width


def test_no_command_is_cut_off(report: Report) -> None:
    far, trial = "/x" * 90, f"stepscope tune loader -- python train.py {'--option value ' * 12}--last"
    advice = (Advice(text="Look", code="stepscope show lines RUN --columns all", language="shell"),)
    long = with_source(replace(report, run=replace(report.run, path=far)), trial=trial, advice=advice)
    lines = screen(long, 80)
    assert lines[-2:] == [f"stepscope report {far} --full", f"stepscope view {far}"]
    begun = lines.index(next(line for line in lines if line.startswith("   Try ")))
    assert trial in " ".join(line.strip() for line in lines[begun:])
    whole = "".join(line.strip() for line in lines)
    assert f"stepscope show lines{far}" in whole.replace(f"lines {far}", f"lines{far}")
    assert "RUN" not in whole


def test_the_path_of_the_run_stands_in_the_commands_of_sentences(report: Report) -> None:
    (summary, *rest) = report.parts
    told = Text("61 more: `stepscope show kernels PATH`. RUN and PATH of others stay.")
    lines = screen(replace(report, parts=(replace(summary, blocks=(told,)), *rest)))
    assert lines[0] == "61 more: `stepscope show kernels stepscope-runs/train`. RUN and PATH of others stay."


def test_a_table_of_the_summary_stands_apart(report: Report) -> None:
    (summary, *rest) = report.parts
    table = Table("Longest kernels", (("kernel", None), ("share", "ratio")), (("gemm", 0.5),))
    parts = (replace(summary, blocks=(*summary.blocks[:2], table, *summary.blocks[2:])), *rest)
    lines = screen(replace(report, parts=parts, findings=()))
    at = lines.index("Longest kernels")
    assert lines[at - 1] == ""
    assert lines[at + 1].split() == ["kernel", "share"]
    assert lines[at + 3] == ""


def test_hostile_names_neither_color_nor_move_anything(hostile_report: Report) -> None:
    text = "\n".join(screen(hostile_report))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert len(text) < 12_000


def test_an_output_without_unicode_marks_the_line_too(report: Report) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace")
    print_card(console_for(stream), with_source(report))
    stream.flush()
    lines = raw.getvalue().decode("ascii").splitlines()
    assert set(lines[1]) == {"#", "=", "."}
    assert "     > 41      image = resize(image)" in lines


def test_the_screen_is_the_same_every_time(report: Report) -> None:
    assert screen(with_source(report)) == screen(with_source(report))


DEEP = f"{' ' * 40}records = [parse(entry, {', '.join(f'option_{number}' for number in range(20))})]"
BELOW = " " * 44 + "x()"


@pytest.mark.parametrize("width", [80, 120, 240])
def test_a_line_that_is_cut_keeps_its_beginning(report: Report, width: int) -> None:
    place = Place(
        file="/home/me/train.py", line=41, symbol="f", text=DEEP.strip(), first=40, around=("def f():", DEEP, BELOW)
    )
    (block, *_) = report.findings
    deep = replace(report, findings=(FindingBlock(block.rule, replace(block.finding, where=(place,))),))
    above, marked, below = (line for line in screen(deep, width) if re.match(r" +(▶ )?4[012]  ", line))
    assert marked.startswith("     ▶ 41  records = [parse(entry, option_0, ")
    assert len(marked) == width and marked.endswith("…")
    assert above == "       40  def f():"
    assert below == "       42      x()"


def test_a_short_line_keeps_its_depth(report: Report) -> None:
    place = Place(file="/home/me/train.py", line=41, first=40, around=("def f():", " " * 8 + "x()"))
    (block, *_) = report.findings
    short = replace(report, findings=(FindingBlock(block.rule, replace(block.finding, where=(place,))),))
    assert "     ▶ 41          x()" in screen(short, 80)


@pytest.mark.parametrize("width", [72, 132])
def test_the_width_is_that_of_the_terminal_that_is_written_to(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    parent, child = pty.openpty()
    try:
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        with os.fdopen(child, "w", closefd=False) as stream:
            assert console_for(stream).width == width
    finally:
        os.close(parent)
        os.close(child)
