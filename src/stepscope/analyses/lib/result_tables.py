"""Result tables that have exactly the declared columns, and the texts that say how to record what is missing."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.core.schema import Column, polars_schema

__all__ = [
    "RANK",
    "RECORD_STEPS",
    "RECORD_TRACE",
    "RECORD_TRACE_ON_GPU",
    "alike",
    "at_rows",
    "by_rank",
    "parts",
    "quotient",
    "shaped",
    "table",
    "texts",
]

RANK = Column("rank", pl.Int32, None, "rank of the process")
RECORD_STEPS = "run it with `stepscope run -- COMMAND`"
RECORD_TRACE = "record a traced window: `stepscope run --trace 10:13 -- COMMAND`"
RECORD_TRACE_ON_GPU = f"{RECORD_TRACE}, on a machine where the job uses a GPU"


def at_rows(values: pl.Series, rows: npt.NDArray[np.int64]) -> pl.Series:
    """The values of rows, null for -1."""
    return values.gather(pl.Series(rows).set(pl.Series(rows < 0), None))


def by_rank(frame: pl.DataFrame) -> dict[int, pl.DataFrame]:
    """The rows of each rank, in the order of the ranks' first rows."""
    return {part["rank"][0]: part for part in parts(frame, "rank")}


def alike(numbers: pl.DataFrame) -> bool:
    """Whether all rows are equal, and without null."""
    return all(column.null_count() == 0 and column.min() == column.max() for column in numbers)


def parts(frame: pl.DataFrame, *keys: str) -> list[pl.DataFrame]:
    """The rows with equal numbers in `keys`, in the order of their first rows. A frame of one part is not copied."""
    if frame.height and alike(frame[keys]):
        return [frame]
    return frame.partition_by(keys, maintain_order=True)


def quotient(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """`part` / `whole` of each row, the same however many ranks are looked at.

    Polars knows of some columns that they hold one value only, such as what a table of one row was joined to; by those
    it multiplies with the inverse instead, which can differ in the last bit. One more row makes them ordinary columns.
    Not for the inside of an aggregation, where a sum is one value and not a row.
    """
    return (part.extend_constant(None, 1) / whole.extend_constant(None, 1)).head(pl.len())


def shaped(frame: pl.DataFrame, columns: tuple[Column, ...]) -> pl.DataFrame:
    """The declared columns of a frame, in their order and types."""
    named = frame[[column.name for column in columns]]
    spelled = [texts(values) if isinstance(values.dtype, pl.Enum) else values for values in named]
    return pl.DataFrame([values.cast(column.type) for values, column in zip(spelled, columns, strict=True)])


def table(rows: Iterable[Sequence[object]], columns: tuple[Column, ...]) -> pl.DataFrame:
    """A result from rows whose values are in the order of the columns."""
    return pl.DataFrame(list(rows), schema=polars_schema(columns), orient="row")


def texts(names: pl.Series) -> pl.Series:
    """The texts of an enumeration. All rows share them, where a cast would copy a long one for each row."""
    kind = names.dtype
    assert isinstance(kind, pl.Enum)
    return kind.categories.gather(names.to_physical()).alias(names.name)
