"""Allocations paired with their frees, and what each block holds as far as it can be told.

Within a device an allocation belongs to the next free of its address. Where the address is allocated again before a
free was seen, the free is unknown: it lies between two traced windows, or was dropped.

The category of a block is the source's own where it names one (memory timelines). Otherwise, by the phases of its
allocation and of its free:

- parameter: allocated while a module was made or moved, as its stack says, and there when the optimizer began or
  never freed;
- input: allocated while the loader was waited for;
- activation: allocated in forward, freed in backward;
- output: allocated in forward, freed after that step's backward: losses, logits, and what else a variable holds;
- gradient: allocated in backward, and there when the optimizer began;
- optimizer state: allocated in the optimizer, and there when it began the next time;
- temporary: freed in the stretch of a phase in which it was allocated, or, allocated in backward, before the optimizer;
- before the recording: as a snapshot says of blocks whose allocation it no longer holds;
- unknown: everything else.
"""

import numpy as np
import polars as pl

from stepscope.analyses.memory.lib.memory_events import memory_events
from stepscope.analyses.memory.lib.memory_phases import EventPhases, event_phases, parameter_events
from stepscope.core.run import Run

__all__ = ["BEFORE", "UNKNOWN", "lives", "unmatched_frees"]

UNKNOWN = "unknown"
"""The category of blocks that nothing tells."""

BEFORE = "before the recording"
"""The category of what was there when the recording began."""

_FOREVER = np.iinfo(np.int64).max


def lives(run: Run) -> pl.DataFrame:
    """One row per allocation of a block with an address, in the order of `memory_events`.

    key, row (of the allocation in `memory_events`), freed (row of its free, null: not seen), again (row of the next
    allocation of its address where no free was seen), start, end (null: not seen), bytes, address, step, phase,
    freed_phase, category.
    """
    return run.once(_lives)


def unmatched_frees(run: Run) -> pl.DataFrame:
    """Frees of blocks whose allocation was not recorded: key, row, time, bytes (positive), address."""
    return run.once(_unmatched_frees)


def _pairs(run: Run) -> pl.DataFrame:
    """Events with an address, sorted by device, address and time, each with the one before and after it there."""
    events = memory_events(run).select("key", "row", "time", "bytes", "address")
    events = events.filter(pl.col("address").is_not_null() & (pl.col("bytes") != 0)).sort("key", "address", "row")
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(-1) for name in ("key", "address")).fill_null(False)
    return events.with_columns(
        next_row=pl.when(same).then(pl.col("row").shift(-1)),
        next_bytes=pl.when(same).then(pl.col("bytes").shift(-1)),
        next_time=pl.when(same).then(pl.col("time").shift(-1)),
        after_allocation=(same & (pl.col("bytes") > 0)).shift(1).fill_null(False),
    )


def _unmatched_frees(run: Run) -> pl.DataFrame:
    frees = run.once(_pairs).filter((pl.col("bytes") < 0) & ~pl.col("after_allocation"))
    return frees.select("key", "row", "time", -pl.col("bytes"), "address").sort("row")


def _lives(run: Run) -> pl.DataFrame:
    pairs = run.once(_pairs).filter(pl.col("bytes") > 0)
    is_free = pl.col("next_bytes") < 0
    found = pairs.select(
        "key", "row", "bytes", "address", start="time",
        freed=pl.when(is_free).then("next_row"), end=pl.when(is_free).then("next_time"),
        again=pl.when(~is_free).then("next_row"),
    ).sort("row")  # fmt: skip
    phases = event_phases(run)
    rows, freed = found["row"].to_numpy(), found["freed"].fill_null(0).to_numpy()
    events = memory_events(run)
    found = found.hstack(phases.of_event[rows]).with_columns(
        events["rank"].gather(rows),
        events["category"].gather(rows).alias("told"),
        parameter_events(run).gather(rows).alias("made"),
    )
    ends = phases.of_event[freed].select(freed_phase="phase", freed_stretch="stretch")
    seen = pl.col("freed").is_not_null()
    found = found.hstack(ends).with_columns(pl.when(seen).then(pl.col("freed_phase", "freed_stretch")))
    return (
        found.with_columns(_next_optimizers(found, phases))
        .with_columns(category=_category())
        .select(
            "key",
            "row",
            "freed",
            "again",
            "start",
            "end",
            "bytes",
            "address",
            "step",
            "phase",
            "freed_phase",
            "category",
        )
    )


def _next_optimizers(found: pl.DataFrame, phases: EventPhases) -> pl.Series:
    """When the optimizer began the first time after each allocation, null if it did not."""
    starts = phases.stretches.filter(pl.col("phase") == "optimizer")
    following = np.full(found.height, _FOREVER, dtype=np.int64)
    ranks, times = found["rank"].to_numpy(), found["start"].to_numpy()
    for rank, part in starts.partition_by("rank", as_dict=True).items():
        of_rank = np.nonzero(ranks == rank[0])[0]
        begins = np.append(part["start"].to_numpy(), _FOREVER)
        following[of_rank] = begins[np.searchsorted(begins[:-1], times[of_rank], side="right")]
    column = pl.Series("next_optimizer", following)
    return pl.select(pl.when(column != _FOREVER).then(column)).to_series().alias("next_optimizer")


def _category() -> pl.Expr:
    kept = pl.col("freed").is_null() & pl.col("again").is_null()
    phase, freed = pl.col("phase"), pl.col("freed_phase")
    reaches_optimizer = kept | (pl.col("end") > pl.col("next_optimizer"))
    reaches_optimizer &= pl.col("next_optimizer").is_not_null()
    same = (pl.col("stretch") == pl.col("freed_stretch")).fill_null(False)
    later = freed.is_not_null() & (freed != "backward")
    rules = (
        (pl.col("told").is_not_null(), pl.col("told")),
        (pl.col("made") & (kept | reaches_optimizer), pl.lit("parameter")),
        (same, pl.lit("temporary")),
        (phase == "data_wait", pl.lit("input")),
        ((phase == "forward") & (freed == "backward"), pl.lit("activation")),
        ((phase == "forward") & later, pl.lit("output")),
        ((phase == "backward") & reaches_optimizer, pl.lit("gradient")),
        ((phase == "backward") & (pl.col("end") <= pl.col("next_optimizer")), pl.lit("temporary")),
        ((phase == "optimizer") & reaches_optimizer, pl.lit("optimizer state")),
    )
    category: pl.Expr = pl.lit(UNKNOWN)
    for test, name in reversed(rules):
        category = pl.when(test.fill_null(False)).then(name).otherwise(category)
    return category
