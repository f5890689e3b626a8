"""Tables on a terminal: what fits is shown on one line a row, and what does not is told."""

import io
from dataclasses import replace

import pytest

from stepscope.core.report import Table
from stepscope.render.tables import LeftOut, print_table
from stepscope.render.terminal import console_for

KERNEL = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>(int)"
NUMBERS = tuple((f"allocations_total{i}", "count") for i in range(8))
TABLE = Table(
    "",
    (("rank", None), ("name", None), *NUMBERS),  # type: ignore[arg-type]
    ((0, KERNEL, *range(1000, 1008)), (0, "attn_fwd", *range(8))),
    order=(1, 9, 2, 3, 4, 5, 6, 7, 8, 0),
)


def printed(monkeypatch: pytest.MonkeyPatch, width: int, *, whole: bool = False) -> tuple[list[str], LeftOut]:
    monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    left = print_table(console_for(stream), TABLE, whole=whole)
    return stream.getvalue().splitlines(), left


def test_the_most_useful_columns_that_fit_are_shown_on_one_line_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, left = printed(monkeypatch, 80)
    assert lines == [
        "                                        allocations_  allocations_  allocations_",
        "name                                          total0        total1        total7",
        "reduce_kernel<512, 1, ReduceOp<…>>(…)          1,000         1,001         1,007",
        "attn_fwd                                           0             1             7",
    ]
    others = ("allocations_total2", "allocations_total3", "allocations_total4", "allocations_total5")
    assert left == LeftOut(columns=("rank", *others, "allocations_total6"), parts_of_names=True)


def test_a_wide_terminal_shows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, left = printed(monkeypatch, 260)
    assert len(lines) == 4
    assert KERNEL in lines[2]
    assert left == LeftOut(columns=(), parts_of_names=False)


def test_names_asked_for_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """In as many blocks and on as many lines as it takes."""
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    table = replace(TABLE, columns=TABLE.columns[1:3], rows=((KERNEL, 1),), order=())
    left = print_table(console_for(stream), table, whole=True)
    assert "".join(line[:66] for line in stream.getvalue().splitlines()[2:]) == KERNEL
    assert left == LeftOut(columns=(), parts_of_names=False)


def test_a_table_without_an_order_leaves_out_only_columns_without_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()
    table = replace(TABLE, order=(), rows=tuple((*row[:5], *[None] * 5) for row in TABLE.rows))
    assert print_table(console_for(stream), table).columns == ()
    text = stream.getvalue()
    assert [f"total{i}" in text for i in range(8)] == [True] * 3 + [False] * 5


def test_a_name_of_several_words_is_a_name_and_a_sentence_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = io.StringIO()
    name = "## Call CompiledFxGraph fpd72yoxubabmpjkyb7y7qnto5wjtpbv2iyldgruuoc3v5ijnykw ##"
    reason = "no offset and drift fit all 12 collectives shared with rank 3"
    table = Table("", (("name", None), ("reason", None)), ((name, reason),), order=(0, 1))
    print_table(console_for(stream), table)
    lines = stream.getvalue().splitlines()
    assert lines[1].startswith("## Call Comp") and "…" in lines[1]
    stream = io.StringIO()
    print_table(
        console_for(stream),
        replace(table, rows=(("Python's garbage collector interrupts training.", "–" * 60),), order=()),
    )
    assert " ".join(line[:29].strip() for line in stream.getvalue().splitlines()[1:]).endswith("interrupts training.")
    assert " ".join(line[30:].strip() for line in lines[1:]) == reason


def test_a_heading_that_is_folded_takes_the_cells_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a column without a value is one of numbers, whose heading is above where they would be."""
    monkeypatch.setenv("COLUMNS", "80")
    stream = io.StringIO()
    columns = (("name", None), ("B - A", "ns"), ("B / A", None), ("of the change", "ratio"))
    rows = (("mm", -10_000_000, None, 2.0), ("relu", 5_000_000, None, -1.0))
    print_table(console_for(stream), Table("", columns, rows))  # type: ignore[arg-type]
    assert stream.getvalue().splitlines() == [
        "                     of the",
        "name   B - A  B / A  change",
        "mm    -10 ms      –   200 %",
        "relu    5 ms      –  -100 %",
    ]
