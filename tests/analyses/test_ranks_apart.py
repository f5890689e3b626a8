"""Analyses of ranks give each rank the same rows, to the last bit, alone and beside others."""

import random
from functools import cache

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.lib.result_tables import by_rank
from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import TABLES
from stepscope.core.synth import Synth
from stepscope.report.diagnose import RULES

from ..examples import example

pytestmark = pytest.mark.slow

OF_RANKS = {
    name: analysis for name, analysis in PluginGroup("analyses", Analysis).load().items() if analysis.scope == "rank"
}
TIMES = {table: [column.name for column in columns if column.unit == "ns"] for table, columns in TABLES.items()}
APART = 1000  # ranks that one example may have
FACTOR = 7919  # a prime, so that quotients of times do not come out even


def uneven() -> Run:
    """Three ranks with one kernel each, of other durations at each of its forty launches, from recorded shapes."""
    draw, synth = random.Random(7), Synth()
    shapes = {"input_dims": "[[64,64],[64,64]]", "input_types": '["float","float"]'}
    for rank in range(3):
        synth.add("devices", rank=rank, device=0, name="NVIDIA A100-SXM4-40GB", memory=42_505_273_344, sms=108)
        for launch in range(40):
            at = 4.0 * launch
            if launch % 10 == 0:
                synth.host(f"ProfilerStep#{launch // 10}", "annotation", at, at + 40, rank=rank)
            synth.host("aten::mm", "operator", at, at + 0.2, rank=rank, **shapes)
            synth.host("cudaLaunchKernel", "runtime", at + 0.01, at + 0.05, correlation=launch + 1, rank=rank)
            end, blocks = at + 0.2 + 3 * draw.random(), draw.random()
            synth.kernel(at + 0.1, end, correlation=launch + 1, rank=rank, blocks_per_sm=blocks)
    return synth.run()


@cache
def everything() -> dict[str, pl.DataFrame]:
    """The examples of all rules and `uneven`, each with ranks of its own, in one run; times are no round numbers."""
    runs = [*map(example, RULES.names()), uneven()]
    parts = {
        table: [
            run.tables[table].with_columns(pl.col("rank") + APART * number, pl.col(TIMES[table]) * FACTOR)
            for number, run in enumerate(runs)
            if table in run.tables and "rank" in run.tables[table].columns
        ]
        for table in TABLES
    }
    return {table: pl.concat(frames).sort("rank", maintain_order=True) for table, frames in parts.items() if frames}


@cache
def together() -> Run:
    """All of it: what one analysis computes the next one need not."""
    return Run(everything())


@cache
def alone() -> list[Run]:
    """Each rank of it."""
    tables = everything()
    ranks = pl.concat([frame["rank"] for frame in tables.values()]).drop_nulls().unique().sort()
    apart = {table: by_rank(frame) for table, frame in tables.items()}
    return [Run({table: found[rank] for table, found in apart.items() if rank in found}) for rank in ranks]


def of_ranks(analysis: Analysis, run: Run) -> pl.DataFrame | None:
    try:
        return analysis.compute(run)
    except MissingData:
        return None


@pytest.mark.parametrize("name", OF_RANKS)
def test_a_rank_alone_has_the_rows_that_it_has_beside_others(name: str) -> None:
    expected = of_ranks(OF_RANKS[name], together())
    if expected is None:
        pytest.skip("no example holds what it needs; the corpus does, in tests/storage/test_ranks.py")
    known = [rows for run in alone() if (rows := of_ranks(OF_RANKS[name], run)) is not None]
    assert known, "what the ranks give together, one of them gives alone"
    assert_frame_equal(pl.concat(known), expected, check_exact=True)
