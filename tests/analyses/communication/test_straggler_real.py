"""A late rank and transfers between two real processes that train by gloo, traced by torch's profiler."""

from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.bound.lib.straggler import late_rank
from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.overlap import overlap
from stepscope.report.diagnose import diagnose

from ..gloo_job import traced_ranks

STEPS, LATE, DELAY = 20, 1, 40_000_000  # longer than a busy machine holds the other rank up
EACH_STEP = f"""
time.sleep({DELAY} / 1e9 * (rank == {LATE}))
dist.all_reduce(tensor)
other, got = 1 - rank, torch.empty(1000)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, other), dist.P2POp(dist.irecv, got, other)]):
    work.wait()
"""


@pytest.mark.slow
def test_the_late_one_of_two_real_ranks(tmp_path: Path) -> None:
    run = traced_ranks(tmp_path, EACH_STEP, ranks=2, steps=STEPS)

    table = collectives(run)
    assert dict(table["collective"].value_counts().iter_rows()) == {
        "all_reduce": 2 * STEPS, "send": 2 * STEPS, "recv": 2 * STEPS,
    }  # fmt: skip
    assert table["unmatched"].null_count() == table.height
    pairs = table.filter(pl.col("collective") != "all_reduce").group_by("match").agg(pl.col("collective").sort())
    assert pairs["collective"].to_list() == [["recv", "send"]] * (2 * STEPS)

    found = late_rank(run)
    assert found is not None
    assert (found.rank, found.cause, found.collectives) == (LATE, "unknown", STEPS)
    assert found.delay >= 0.8 * DELAY
    assert "straggler" in [block.rule for block in diagnose(run).findings]
    assert overlap(run).height == 2 * STEPS
