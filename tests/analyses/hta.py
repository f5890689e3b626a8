"""The answers of HTA for traces of the corpus, and the part of a trace that they are about."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.core.run import Run

__all__ = ["as_hta_keeps_it", "golden_of", "ranks_of"]

TWO_RANKS = "hta/sampled_2ranks"


def golden_of(corpus: Path, name: str) -> dict[str, Any]:
    """HTA's answers for a trace, or for a folder of ranks."""
    golden: dict[str, Any] = json.loads((corpus / "golden" / "hta" / f"{name}.json").read_text())
    return golden


def ranks_of(*names: str, slow: Iterable[str] = ()) -> pytest.MarkDecorator:
    """Run a test with `name`, `trace` (below traces/) and `rank` for traces of one rank, and for both of a folder."""
    slow = tuple(slow)
    alone = [
        pytest.param(name, f"{name}.json.gz", 0, marks=[pytest.mark.slow] if name in slow else [], id=name)
        for name in (*names, *slow)
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
