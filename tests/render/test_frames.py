"""Tables of analyses for reading and as CSV."""

import polars as pl

from stepscope.core.schema import Column
from stepscope.render.frames import columns_by_use, frame_csv, frame_table

COLUMNS = (
    Column("step", pl.Int64, None, ""),
    Column("start", pl.Int64, "ns", "", "trace"),
    Column("end", pl.Int64, "ns", "", "trace"),
    Column("duration", pl.Int64, "ns", ""),
    Column("tags", pl.List(pl.String), None, ""),
)
EPOCH = 1_790_000_000_000_000_000


def frame() -> pl.DataFrame:
    rows = [
        {"step": 0, "start": EPOCH, "end": EPOCH + 5, "duration": 5, "tags": ["a", "b"]},
        {"step": 1, "start": EPOCH + 7, "end": None, "duration": None, "tags": ["\x1b[31m"]},
    ]
    return pl.DataFrame(rows, schema={column.name: column.type for column in COLUMNS})


def test_moments_count_from_the_first() -> None:
    table = frame_table(COLUMNS, frame())
    assert table.columns == (
        ("step", None), ("start, since first", "ns"), ("end, since first", "ns"), ("duration", "ns"), ("tags", None),
    )  # fmt: skip
    assert table.rows == ((0, 0, 5, 5, "a, b"), (1, 7, None, None, "\x1b[31m"))


def test_a_table_without_rows() -> None:
    assert frame_table(COLUMNS, frame().clear()).rows == ()


def test_csv_keeps_full_numbers() -> None:
    assert frame_csv(frame(), escape=False) == (
        f"step,start,end,duration,tags\n0,{EPOCH},{EPOCH + 5},5,a; b\n1,{EPOCH + 7},,,\x1b[31m\n"
    )
    assert frame_csv(frame(), escape=True).endswith(",,,\\x1b[31m\n")


def test_paths_of_modules_as_a_tree() -> None:
    columns = (Column("module", pl.String, None, ""), Column("pass", pl.String, None, ""))
    paths = [
        "Net_0",
        "Net_0",
        "Net_0.A_1",
        "Net_0.A_1.B_0",
        "Net_0.A_10",
        "Net_0.C_0.D_0",
        None,
        "Other_0.E_0",
        "Net_0",
    ]
    frame = pl.DataFrame({"module": paths, "pass": ["forward"] * len(paths)})
    assert [row[0] for row in frame_table(columns, frame, tree=True).rows] == [
        "Net_0", "Net_0", "  A_1", "    B_0", "  A_10", "  C_0.D_0", None, "Other_0.E_0", "Net_0"
    ]  # fmt: skip
    assert [row[0] for row in frame_table(columns, frame).rows] == paths


def test_columns_in_order_of_use() -> None:
    """Leading ones, then as declared; names that tell no rows apart and what no row has come last."""
    columns = (
        Column("rank", pl.Int32, None, ""),
        Column("name", pl.String, None, ""),
        Column("never", pl.Int64, "ns", ""),
        Column("calls", pl.Int64, "count", ""),
        Column("total", pl.Int64, "ns", ""),
    )
    schema = {column.name: column.type for column in columns}
    rows = pl.DataFrame([(0, "a", None, 1, 5), (0, "b", None, 1, 4)], schema=schema, orient="row")
    assert columns_by_use(columns, rows, ("total", "never")) == ["total", "name", "calls", "rank", "never"]
    first = columns_by_use(columns, rows.head(1), ())
    assert first == ["name", "calls", "total", "rank", "never"], "a lone name still says what it is"
    alike = rows.with_columns(name=pl.lit("a"))
    assert columns_by_use(columns, alike, ("total",)) == ["total", "calls", "rank", "name", "never"]
    assert columns_by_use(columns, alike, ("name",))[0] == "name", "the first one is what rows are of"
    assert frame_table(columns, rows, order=first).order == (1, 3, 4, 0, 2)
    assert frame_table(columns, rows).order == ()


def test_numbers_get_the_unit_of_their_row() -> None:
    columns = (
        Column("what", pl.String, None, ""),
        Column("value", pl.Float64, None, ""),
        Column("unit", pl.String, None, ""),
    )
    rows = [("memory", 2.0**36, "bytes"), ("step", 4e6, "ns"), ("GPU", None, None), ("load", 1.5, "cores")]
    frame = pl.DataFrame(rows, schema={column.name: column.type for column in columns}, orient="row")
    table = frame_table(columns, frame)
    assert table.columns == (("what", None), ("value", None))
    assert table.rows == (("memory", "64 GiB"), ("step", "4 ms"), ("GPU", None), ("load", "1.5 cores"))
    assert frame_table(columns[:2], frame.drop("unit")).rows[1] == ("step", 4e6)
