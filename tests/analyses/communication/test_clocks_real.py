"""Clocks of real ranks: processes that train together by gloo, each traced by torch's profiler."""

from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.communication.clock_offsets import clock_offsets
from stepscope.analyses.communication.collectives import collectives

from ..gloo_job import traced_ranks

RANKS, STEPS = 3, 12
EACH_STEP = """
time.sleep(0.02 * (step % ranks == rank))
dist.all_reduce(tensor)
dist.broadcast(tensor, src=step % ranks)
dist.barrier()
"""


@pytest.mark.slow
def test_real_ranks_of_one_host_agree_and_the_late_one_waits_least(tmp_path: Path) -> None:
    run = traced_ranks(tmp_path, EACH_STEP, ranks=RANKS, steps=STEPS)

    table = collectives(run)
    assert table.height == RANKS * STEPS * 3
    assert table["ranks"].to_list() == [RANKS] * table.height
    first = table.filter(pl.col("collective") == "all_reduce").with_columns(
        late=pl.col("step") % RANKS == pl.col("rank")
    )
    waits = dict(first.group_by("late").agg(pl.col("waiting").median()).iter_rows())
    assert waits[True] < waits[False]

    for row in clock_offsets(run).filter(pl.col("rank") > 0).iter_rows(named=True):
        assert row["status"] == "same-clock"
        assert row["low"] <= 0 <= row["high"]
        assert row["matched"] == 2 * STEPS
