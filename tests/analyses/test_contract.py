"""What all analyses keep to, and what must not change their answers: ranks, the clock's zero and unit, order."""

from collections.abc import Callable

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import TABLES, polars_schema
from stepscope.core.synth import Synth

ALL = sorted(PluginGroup("analyses", Analysis).load().items())
NAMES_RANKS = {"clock-offsets"}
"""Tables with numbers of ranks in other columns than `rank`, and in texts."""

NOT_STRETCHED = {"bound", "clock-offsets", "gpu-counters", "overview"}
"""Figures that do not scale with the clock: a profiler's cost, bounds a ns wide, stretches of a fixed length, facts."""

PER_TIME = ("GB/s",)
"""Units that shrink when times grow."""

every_analysis = pytest.mark.parametrize("analysis", [a for _, a in ALL], ids=[name for name, _ in ALL])
each = pytest.mark.parametrize(("name", "analysis"), ALL, ids=[name for name, _ in ALL])


@every_analysis
def test_a_run_without_data_is_missing_data_and_says_how_to_record_it(analysis: Analysis) -> None:
    with pytest.raises(MissingData) as missing:
        analysis(Synth().run())
    assert missing.value.how


@every_analysis
def test_a_wide_table_says_which_of_its_columns_lead(analysis: Analysis) -> None:
    """Ten columns find room on a terminal, as a rule; of more, a reader should see the useful ones."""
    assert {*analysis.leading} <= {column.name for column in analysis.columns}
    assert analysis.leading or len(analysis.columns) <= 10


@every_analysis
def test_the_columns_are_the_declared_ones(analysis: Analysis, gpu_run: Run) -> None:
    assert dict(table_of(analysis, gpu_run).schema) == polars_schema(analysis.columns)


@each
def test_ranks_may_have_other_numbers(name: str, analysis: Analysis, gpu_run: Run) -> None:
    if name in NAMES_RANKS:
        pytest.skip("has numbers of ranks in other columns than rank")
    expected = table_of(analysis, gpu_run)
    ranks = [column for column in ("rank",) if column in expected.columns]
    renamed = _mapped(gpu_run, lambda column: pl.col(column) + 40 if column == "rank" else None)
    assert_frame_equal(analysis(renamed), expected.with_columns(pl.col(ranks) + 40))


@each
def test_the_clock_may_have_another_zero(name: str, analysis: Analysis, gpu_run: Run) -> None:
    """A column that is a moment says its clock, the fifth argument of Column; a duration has none."""
    later = 1_700_000_000_000_000_001

    def shift(column: str) -> pl.Expr | None:
        return pl.col(column) + later if column in ("start", "end", "time") else None

    expected = table_of(analysis, gpu_run)
    moments = [column.name for column in analysis.columns if column.clock]
    assert_frame_equal(analysis(_mapped(gpu_run, shift)), expected.with_columns(pl.col(moments) + later))


@each
def test_the_clock_may_run_in_another_unit(name: str, analysis: Analysis, gpu_run: Run) -> None:
    if name in NOT_STRETCHED:
        pytest.skip("has figures that do not scale with the clock")
    units = {(table, column.name): column.unit for table, columns in TABLES.items() for column in columns}

    def stretched(table: str, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col(column) * 3 for column in frame.columns if units[table, column] == "ns")

    expected = table_of(analysis, gpu_run)
    slower = [pl.col(column.name) * 3 for column in analysis.columns if column.unit == "ns"]
    rates = [c.name for c in analysis.columns if c.unit in PER_TIME or c.name.startswith("ips_")]
    run = Run({table: stretched(table, frame) for table, frame in gpu_run.tables.items()})
    assert_frame_equal(analysis(run), expected.with_columns(*slower, pl.col(rates) / 3))


@each
def test_events_may_come_in_any_order(name: str, analysis: Analysis, gpu_run: Run) -> None:
    expected = table_of(analysis, gpu_run)
    tables = {table: frame.sample(fraction=1, shuffle=True, seed=7) for table, frame in gpu_run.tables.items()}
    by = [column for column, kind in polars_schema(analysis.columns).items() if not kind.is_nested()]
    assert_frame_equal(analysis(Run(tables)).sort(by), expected.sort(by))


def table_of(analysis: Analysis, run: Run) -> pl.DataFrame:
    """The analysis' table. Skips the test where the run does not hold what the analysis needs."""
    try:
        return analysis(run)
    except MissingData:
        pytest.skip("needs data that the run of tests/analyses/conftest.py does not hold, such as stack samples")


def _mapped(run: Run, change: Callable[[str], pl.Expr | None]) -> Run:
    """The run with some columns of all tables changed."""

    def changed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(expression for name in frame.columns if (expression := change(name)) is not None)

    return Run({name: changed(frame) for name, frame in run.tables.items()})
