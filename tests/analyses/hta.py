"""The answers of HTA for traces of the corpus, and the part of a trace that they are about."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.core.run import Run

__all__ = ["ALL", "CONTROL", "SMALL", "STEP_BASED", "TWO_RANKS", "as_hta_keeps_it", "golden_of", "ranks_of", "trace_of"]

TWO_RANKS = "hta/sampled_2ranks"
CONTROL, STEP_BASED = "hta/trace_diff/control", "hta/with_gpu_user_annotation/step_based_trace_2543932"
SMALL = (
    CONTROL,
    STEP_BASED,
    "hta/critical_path/cuda_event_sync/event_sync_trace",
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace",
)
LARGE = (
    "kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace",
    "kineto/resnet50_num_workers_4/worker0.1623212756351.pt.trace",
    "param/linear_kineto",
)
ALL = (TWO_RANKS, *SMALL, *LARGE)


def trace_of(corpus: Path, name: str) -> Path:
    """A trace that HTA has read, or a folder of ranks."""
    return corpus / "traces" / (name if name == TWO_RANKS else f"{name}.json.gz")


def golden_of(corpus: Path, name: str) -> dict[str, Any]:
    """HTA's answers for a trace, or for a folder of ranks."""
    golden: dict[str, Any] = json.loads((corpus / "golden" / "hta" / f"{name}.json").read_text())
    return golden


def ranks_of(*names: str) -> pytest.MarkDecorator:
    """Run a test with `name`, `trace` (below traces/) and `rank`: these traces of one rank, large ones, two ranks."""
    alone = [
        pytest.param(name, f"{name}.json.gz", 0, marks=[pytest.mark.slow] if name in LARGE else [], id=name)
        for name in (*names, *LARGE)
    ]
    both = [pytest.param(TWO_RANKS, f"{TWO_RANKS}/sampled_rank-{rank}.json.gz", rank, id=str(rank)) for rank in (0, 1)]
    return pytest.mark.parametrize(("name", "trace", "rank"), [*alone, *both])


def as_hta_keeps_it(run: Run) -> Run:
    """Without the last of several steps of each rank, and without what was not launched before it."""
    host, device = run.optional("host"), run.optional("device")
    steps = host.filter(pl.col("name").str.starts_with("ProfilerStep#")).group_by("rank")
    last = steps.agg(last=pl.col("start").max(), several=pl.len() > 1).filter("several").drop("several")
    begun = host.join(last, on="rank", how="left", maintain_order="left")
    kept = begun.filter(pl.col("last").is_null() | (pl.col("start") < pl.col("last"))).drop("last")
    launched = device.join(kept.select("rank", "correlation").unique(), on=["rank", "correlation"], how="semi")
    whole = device.filter(~pl.col("rank").is_in(last["rank"].implode()))
    return Run({**run.tables, "host": kept, "device": pl.concat([whole, launched]).unique(maintain_order=True)})
