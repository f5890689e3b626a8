"""A late rank and transfers between two real processes that train by gloo, traced by torch's profiler."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses._late import late_rank
from stepscope.analyses.collectives import collectives
from stepscope.analyses.overlap import overlap
from stepscope.diagnose import diagnose
from stepscope.store import open_run

STEPS, LATE, DELAY = 20, 1, 8_000_000
JOB = """
import os, sys, time
import torch, torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

rank, steps, late, delay, folder = *map(int, sys.argv[1:5]), sys.argv[5]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
sent, got = torch.ones(1000), torch.empty(1000)
with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=steps), record_shapes=True,
    on_trace_ready=lambda p: p.export_chrome_trace(f"{folder}/traces/rank_{rank}.json"),
) as profiler:
    for step in range(steps + 2):
        time.sleep(delay / 1e9 * (rank == late))
        dist.all_reduce(sent)
        other = 1 - rank
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, got, other)]):
            work.wait()
        profiler.step()
dist.barrier()
os._exit(0)  # gloo's threads may abort a process that takes its group down while another still uses it
"""


@pytest.mark.slow
def test_the_late_one_of_two_real_ranks(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    arguments = [str(STEPS), str(LATE), str(DELAY), str(tmp_path)]
    jobs = [subprocess.Popen([sys.executable, "-c", JOB, str(rank), *arguments]) for rank in (0, 1)]
    assert [job.wait(timeout=120) for job in jobs] == [0, 0]
    run = open_run(tmp_path / "traces")

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
    assert "late-rank" in [block.rule for block in diagnose(run).findings]
    assert overlap(run).height == 2 * STEPS
