"""Files that are loaded again and again: in which epoch, and how often."""

import polars as pl

from stepscope.render.format import title_text

from .test_input_rules import one, rules_of, slow_run, values


def test_a_file_for_each_sample_is_read_once() -> None:
    own_file = pl.when(pl.col("stage") == "read").then(pl.col("batch"))
    assert rules_of(slow_run("repeated-file-load", read_file=own_file)) == ["slow-transform"]


def test_a_file_that_is_read_in_each_epoch_is_read_once_an_epoch() -> None:
    each = pl.when(pl.col("stage") == "read").then(pl.col("batch") // 2 % 2)
    again = slow_run("repeated-file-load", read_file=each, epoch=pl.col("batch") // 4)
    assert rules_of(again) == ["slow-transform"]
    assert values(one("repeated-file-load", slow_run("repeated-file-load")))["distinct files"] == 1


def test_loads_of_a_file_are_counted_by_epoch_where_one_has_ended() -> None:
    def title(**columns: pl.Expr) -> str:
        return title_text(one("repeated-file-load", slow_run("repeated-file-load", **columns)).title)

    assert title() == "numpy.load loads the same file 40× in 1,280 samples"
    assert title(epoch=pl.col("batch") // 10) == "numpy.load loads the same file 10× per epoch"
    files = pl.when(pl.col("stage") == "read").then(pl.col("batch") // 2 % 2)
    assert title(read_file=files, epoch=pl.col("batch") // 20) == "numpy.load loads each file 10× per epoch"
