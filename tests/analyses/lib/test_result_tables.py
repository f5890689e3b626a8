"""Tables of results have exactly the declared columns."""

import polars as pl
import pytest

from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.core.schema import Column

NAME = Column("name", pl.String, None, "a name")


@pytest.mark.parametrize("names", [["b", None, "a", "b"], [None, None], []])
def test_enumerations_become_texts_and_nothing_stays_nothing(names: list[str | None]) -> None:
    known = pl.Series(names, dtype=pl.String).drop_nulls().unique()
    frame = pl.DataFrame({"name": pl.Series(names, dtype=pl.Enum(known)), "other": names}).with_columns(rank=0)
    found = shaped(frame, (RANK, NAME))
    assert dict(found.schema) == {"rank": pl.Int32, "name": pl.String}
    assert found["name"].to_list() == names
