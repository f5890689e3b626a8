"""Ranks on one machine that train together by gloo, each a real process that torch's profiler traces."""

import subprocess
import sys
import textwrap
from pathlib import Path

from stepscope.core.run import Run
from stepscope.storage import open_run

__all__ = ["traced_ranks"]

JOB = """
import os, sys, time
import torch, torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

rank, ranks, steps, folder = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
tensor = torch.ones(1000)
with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=steps), record_shapes=True,
    on_trace_ready=lambda p: p.export_chrome_trace(f"{folder}/traces/rank_{rank}.json"),
) as profiler:
    for step in range(steps + 2):
EACH_STEP
        profiler.step()
dist.barrier()
os._exit(0)  # gloo's threads may abort a process that takes its group down while another still uses it
"""


def traced_ranks(folder: Path, each_step: str, *, ranks: int, steps: int) -> Run:
    """Run so many ranks that do `each_step` (Python, with `rank`, `ranks`, `step`, `tensor`), and open their traces."""
    (folder / "traces").mkdir()
    job = JOB.replace("EACH_STEP", textwrap.indent(textwrap.dedent(each_step).strip(), " " * 8))
    arguments = [str(ranks), str(steps), str(folder)]
    jobs = [subprocess.Popen([sys.executable, "-c", job, str(rank), *arguments]) for rank in range(ranks)]
    assert [job.wait(timeout=120) for job in jobs] == [0] * ranks
    return open_run(folder / "traces")
