"""Clocks of real ranks: processes that train together by gloo, each traced by torch's profiler."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.clock_offsets import clock_offsets
from stepscope.analyses.collectives import collectives
from stepscope.store import open_run

RANKS, STEPS = 3, 12
JOB = """
import os, sys, time
import torch, torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

rank, ranks, steps, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
gradients = torch.ones(1000)
plan = schedule(wait=1, warmup=1, active=steps)
with profile(
    activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True,
    on_trace_ready=lambda p: p.export_chrome_trace(f"{folder}/traces/rank_{rank}.json"),
) as profiler:
    for step in range(steps + 2):
        time.sleep(0.004 * (step % ranks == rank))
        dist.all_reduce(gradients)
        dist.broadcast(gradients, src=step % ranks)
        dist.barrier()
        profiler.step()
dist.barrier()
os._exit(0)  # gloo's threads may abort a process that takes its group down while another still uses it
"""


@pytest.mark.slow
def test_real_ranks_of_one_host_agree_and_the_late_one_waits_least(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    arguments = [str(RANKS), str(STEPS), str(tmp_path)]
    jobs = [subprocess.Popen([sys.executable, "-c", JOB, str(rank), *arguments]) for rank in range(RANKS)]
    assert [job.wait(timeout=120) for job in jobs] == [0] * RANKS
    run = open_run(tmp_path / "traces")

    table = collectives(run)
    assert table.height == RANKS * STEPS * 3
    assert table["ranks"].to_list() == [RANKS] * table.height
    first = table.filter(pl.col("collective") == "all_reduce").with_columns(
        late=pl.col("step") % RANKS == pl.col("rank")
    )
    waits = dict(first.group_by("late").agg(pl.col("waiting").median()).iter_rows())
    assert waits[True] < waits[False]

    for row in clock_offsets(run).filter(pl.col("rank") > 0).iter_rows(named=True):
        assert row["status"] == "same-host-agrees"
        assert row["low"] <= 0 <= row["high"]
        assert row["matched"] == 2 * STEPS
