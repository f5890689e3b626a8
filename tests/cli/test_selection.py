"""`--where` and `--sort` of `stepscope show`."""

from pathlib import Path

import polars as pl
import pytest

from stepscope.cli._selection import selection
from stepscope.core.errors import BadInput
from stepscope.core.schema import Column

from ..command import stepscope

COLUMNS = (
    Column("rank", pl.Int32, None, "rank"),
    Column("module", pl.String, None, "path"),
    Column("time", pl.Int64, "ns", "a moment"),
    Column("total", pl.Int64, "ns", "a length"),
    Column("share", pl.Float64, "ratio", "a share"),
    Column("bytes", pl.Int64, "bytes", "a size"),
    Column("used", pl.Boolean, None, "yes or no"),
    Column("tags", pl.List(pl.String), None, "words"),
)
FRAME = pl.DataFrame(
    [
        (0, "Net_0", 5, 2_000_000, 0.5, 4096, True, ["traced"]),
        (0, "Net_0.Linear_0", 1, None, 0.25, 1, False, ["epoch-start", "traced"]),
        (1, "Net_0.Linear_(1)\n", 3, 900_000, None, 2**20, True, []),
        (1, None, 9, 900_000, 0.5, 7, None, None),
    ],
    schema={column.name: column.type for column in COLUMNS},
    orient="row",
)


def chosen(*where: str, sort: str | None = None) -> list[int]:
    """Places of the rows in FRAME."""
    columns = (*COLUMNS, Column("place", pl.UInt32, None, "place in FRAME"))
    rows = FRAME.with_row_index("place")
    return selection("things", columns, where=where, sort=sort).of(rows)["place"].to_list()


def test_columns_that_are_shown() -> None:
    selected = selection("things", COLUMNS, where=["rank=0"], sort="time", show="share, total,share")
    assert selected.of(FRAME).rows() == [(0.25, None), (0.5, 2_000_000)]
    assert [column.name for column in selected.columns] == ["share", "total"]
    with pytest.raises(BadInput, match="things has no column 'x'"):
        selection("things", COLUMNS, show="share,x")


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ("rank=1", [2, 3]),
        ("rank != 1", [0, 1]),
        ("module=Net_0", [0]),
        ("module=Net_0*", [0, 1, 2]),
        ("module=*.Linear_?", [1]),
        ("module=*(1)*", [2]),
        ("module!=Net_0", [1, 2, 3]),
        ("module=", [3]),
        ("module!=", [0, 1, 2]),
        ("total=900000", [2, 3]),
        ("total>1ms", [0]),
        ("total>=0.9 ms", [0, 2, 3]),
        ("total<1000us", [2, 3]),
        ("total=", [1]),
        ("share>=50%", [0, 3]),
        ("share<0.3", [1]),
        ("bytes>=4KiB", [0, 2]),
        ("used=true", [0, 2]),
        ("used!=true", [1, 3]),
        ("tags=traced", [0, 1]),
        ("tags=epoch*", [1]),
    ],
)
def test_conditions(where: str, places: list[int]) -> None:
    assert chosen(where) == places


def test_all_conditions_must_hold() -> None:
    assert chosen("rank=1", "module!=", "total<1ms") == [2]


@pytest.mark.parametrize(
    ("sort", "places"),
    [
        (None, [0, 1, 2, 3]),
        ("total", [0, 2, 3, 1]),
        ("total:asc", [2, 3, 0, 1]),
        ("module", [0, 2, 1, 3]),
        ("module:desc", [1, 2, 0, 3]),
        ("time", [1, 2, 0, 3]),
        ("rank:desc", [2, 3, 0, 1]),
    ],
)
def test_order(sort: str | None, places: list[int]) -> None:
    assert chosen(sort=sort) == places


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("modul=x", "things has no column 'modul', did you mean module?\nits columns: rank, module, time, total,"),
        ("nothing at all", "'nothing at all' is no condition\nwrite COLUMN=VALUE"),
        ("total>fast", "'fast' is no number for total\nwrite a number, or one with a unit: ns, us, µs, ms, s"),
        ("total>3 MB", "'3 MB' is no number for total"),
        ("rank=one", "'one' is no number for rank\nwrite a number"),
        ("total>1.2.3", "'1.2.3' is no number for total"),
        ("total>", "total> lacks a value"),
        ("module>a", "module holds no numbers to compare"),
    ],
)
def test_conditions_that_cannot_be_used_are_told(where: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        chosen(where)
    assert message in str(error.value)


@pytest.mark.parametrize(("sort", "message"), [("tim", "did you mean time?"), ("time:up", "'up' is no order")])
def test_orders_that_cannot_be_used_are_told(sort: str, message: str) -> None:
    with pytest.raises(BadInput, match="--sort") as error:
        chosen(sort=sort)
    assert message in str(error.value)


def test_on_the_command_line(tmp_path: Path) -> None:
    events = ",".join(
        f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "ts": {at}, "dur": {at}, "pid": 1, "tid": 1}}'
        for at, name in ((10, "aten::mm"), (100, "aten::add"), (1000, "my::mm"))
    )
    trace = tmp_path / "trace.json"
    trace.write_text(f'{{"traceEvents": [{events}]}}')

    def show(*words: str) -> tuple[int, str, str]:
        done = stepscope("show", "operators", trace, *words)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = show("--where", "name=aten::*", "--sort", "host_total", "--rows", "1", "--columns", "name,calls")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [["name", "calls"], ["aten::add", "1"]]
    code, _, said = show("--where", "host_total>1s")
    assert (code, said) == (0, "no rows: none of 3 rows passes --where\n")
    code, _, said = show("--where", "nam=x")
    assert code == 2
    assert "did you mean name?" in said
