"""What all analyses keep to, and what must not change their answers: ranks, the clock's zero and unit, order."""

from collections.abc import Callable

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.attribution import attribution
from stepscope.analyses.blocking_syncs import blocking_syncs
from stepscope.analyses.collectives import collectives
from stepscope.analyses.device_overlap import device_overlap
from stepscope.analyses.device_summary import device_summary
from stepscope.analyses.device_time import device_time
from stepscope.analyses.gpu_summary import gpu_summary
from stepscope.analyses.host_work import host_work
from stepscope.analyses.kernel_launches import kernel_launches
from stepscope.analyses.kernels import kernels
from stepscope.analyses.late_ranks import late_ranks
from stepscope.analyses.operator_kernels import operator_kernels
from stepscope.analyses.operators import operators
from stepscope.analyses.operators_by_stack import operators_by_stack
from stepscope.analyses.overlap import overlap
from stepscope.analyses.phases import phases
from stepscope.analyses.placement import placement
from stepscope.analyses.process_groups import process_groups
from stepscope.analyses.steady_steps import steady_steps
from stepscope.analyses.step_breakdown import step_breakdown
from stepscope.analyses.step_breakdown_mean import step_breakdown_mean
from stepscope.analyses.steps import steps
from stepscope.analyses.timer import timer
from stepscope.analyses.tracing_cost import tracing_cost
from stepscope.core.errors import MissingData
from stepscope.core.plugins import Group
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import TABLES, polars_schema
from stepscope.core.synth import Synth

ALL = sorted(Group("analyses", Analysis).load().items())
MINE = (
    kernel_launches, operator_kernels, operators_by_stack,
    attribution, blocking_syncs, collectives, device_summary, device_time, gpu_summary, host_work, kernels, late_ranks,
    operators, overlap, phases, placement, process_groups, steady_steps, step_breakdown,
    step_breakdown_mean, steps, device_overlap, timer, tracing_cost,
)  # fmt: skip
NAMED = [(name, analysis) for name, analysis in ALL if analysis in MINE]
every_analysis = pytest.mark.parametrize("analysis", [a for _, a in ALL], ids=[name for name, _ in ALL])
each = pytest.mark.parametrize("analysis", [a for _, a in NAMED], ids=[name for name, _ in NAMED])


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
    try:
        table = analysis(gpu_run)
    except MissingData:
        pytest.skip("needs data that this run does not hold, such as stack samples")
    assert dict(table.schema) == polars_schema(analysis.columns)


@each
def test_the_run_holds_what_each_analysis_needs(analysis: Analysis, gpu_run: Run) -> None:
    assert not analysis(gpu_run).is_empty()


@each
def test_ranks_may_have_other_numbers(analysis: Analysis, gpu_run: Run) -> None:
    renamed = _mapped(gpu_run, lambda name: pl.col(name) + 40 if name == "rank" else None)
    expected = analysis(gpu_run)
    if "rank" in expected.columns:
        expected = expected.with_columns(pl.col("rank") + 40)
    assert_frame_equal(analysis(renamed), expected)


@each
def test_the_clock_may_have_another_zero(analysis: Analysis, gpu_run: Run) -> None:
    later = 1_700_000_000_000_000_001

    def shift(name: str) -> pl.Expr | None:
        return pl.col(name) + later if name in ("start", "end", "time") else None

    expected = analysis(gpu_run)
    moments = [name for name in expected.columns if name in ("start", "end", "first_start", "last_end")]
    assert_frame_equal(analysis(_mapped(gpu_run, shift)), expected.with_columns(pl.col(moments) + later))


@each
def test_the_clock_may_run_in_another_unit(analysis: Analysis, gpu_run: Run) -> None:
    units = {(table, column.name): column.unit for table, columns in TABLES.items() for column in columns}

    def stretched(table: str, frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col(name) * 3 for name in frame.columns if units[table, name] == "ns")

    run = Run({table: stretched(table, frame) for table, frame in gpu_run.tables.items()})
    slower = {column.name: pl.col(column.name) * 3 for column in analysis.columns if column.unit == "ns"}
    per_second = {name: pl.col(name) / 3 for name in analysis(gpu_run).columns if name.startswith("ips_")}
    assert_frame_equal(analysis(run), analysis(gpu_run).with_columns(**slower, **per_second))


@each
def test_events_may_come_in_any_order(analysis: Analysis, gpu_run: Run) -> None:
    tables = {name: frame.sample(fraction=1, shuffle=True, seed=7) for name, frame in gpu_run.tables.items()}
    by = [name for name, kind in polars_schema(analysis.columns).items() if not kind.is_nested()]
    assert_frame_equal(analysis(Run(tables)).sort(by), analysis(gpu_run).sort(by))


def _mapped(run: Run, change: Callable[[str], pl.Expr | None]) -> Run:
    """The run with some columns of all tables changed."""

    def changed(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(expression for name in frame.columns if (expression := change(name)) is not None)

    return Run({name: changed(frame) for name, frame in run.tables.items()})
