"""Python's garbage collector interrupts training.

## What it finds
Steps that spend more than 3 % of their time in Python's cyclic garbage collector, timed in the training process. If
line samples show it at `gc.collect()`, the script itself starts the collection.

## Why it costs time
A full collection walks every container object of the process, such as a data set held as a list of dictionaries. It
runs in whatever thread allocates, and nothing else does meanwhile.

## What to do
After model and data are built, `gc.freeze()` takes what is alive out of every later collection; a higher threshold
makes collections rare. Large tables belong into arrays or tensors, which the collector does not walk.

## How the gain is predicted
High end: all of the measured time. Low end: half of it, since some collections remain; nine tenths, where the job calls
it itself.

## When it is wrong
If the program makes reference cycles all the time, rare collections let memory grow until they run.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.host.lines import lines
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

AFTER = 1.05  # of the time: what runs after a full collection finds cold caches; measured 1.01
CALLED = 0.9  # of the time that goes with calls of the job's own: what is collected by itself stays
PLACES = 2  # lines that are named: any line may be the one that is interrupted
MIN_SHARE = 0.03  # of the step: the time is measured, not sampled, and the remedy is one line


def check(run: Run) -> Iterator[Finding]:
    recorded = run.optional("steps").select("rank", "step", "gc").drop_nulls("gc")
    if recorded.is_empty():
        raise MissingData("time in the garbage collector", how="run it with `stepscope run -- COMMAND`")
    table = enough_steps(run).select("rank", "step", "duration").join(recorded, on=["rank", "step"])
    means = table.group_by("rank").agg(pl.col("gc", "duration").mean()).sort("rank")
    slow = [(gc, step, rank) for rank, gc, step in means.iter_rows() if step and gc >= MIN_SHARE * step]
    if not slow:
        return
    gc, step, worst = max(slow)
    places = _places(run, worst)
    called = bool(places) and "gc.collect(" in places[0].text
    yield Finding(
        title=_title(places, gc, called=called),
        cause="scheduling",
        evidence=(Evidence(label="GC time per step", value=gc, unit="ns", source="steps", share=gc / step),),
        gain=Gain(
            low_ns=int(gc * (CALLED if called else 0.5)),
            high_ns=int(min(gc * (AFTER if called else 1.0), step)),
            step_ns=int(step),
            basis="measured collection time",
            confidence="structural",
        ),
        advice=(_REMOVE, _FREEZING) if called else (_FREEZING,),
        ranks=tuple(rank for _, _, rank in slow),
        where=places,
    )


def _title(places: tuple[Place, ...], gc: float, *, called: bool) -> Title:
    if called:
        return Title("gc.collect() at {} takes {} per step", (places[0], Value(gc, "ns")))
    return Title("Python's garbage collector takes {} per step", (Value(gc, "ns"),))


def _places(run: Run, rank: int) -> tuple[Place, ...]:
    """The lines at which most of the time is spent in it: they make the objects that call it off."""
    try:
        table = lines(run).filter((pl.col("rank") == rank) & pl.col("collector") & pl.col("line").is_not_null())
    except MissingData:
        return ()
    summed = table.group_by("file", "line", "function").agg(pl.col("text").first(), pl.col("time", "share").sum())
    rows = summed.sort("time", "file", "line", descending=[True, False, False]).head(PLACES).iter_rows(named=True)
    return tuple(line_place(row, row["share"], STEP) for row in rows)


_FREEZING = Advice(
    text="Freeze the objects that exist before training",
    code="gc.collect()\ngc.freeze()\ngc.set_threshold(100_000, 50, 50)  # before the training loop",
)
_REMOVE = Advice(
    text="Remove the call, or collect every 1,000th step",
    code="if step % 1000 == 0:\n    gc.collect()",
)


def example(synth: Synth, fixed: bool) -> None:
    collecting = 0 if fixed else 8
    length = 60 + collecting
    for step in range(10):
        start = step * length
        synth.step(step, start, start + length, forward=25 + collecting, backward=30, optimizer=5, gc=collecting)


RULE = Rule(check=check, example=example)
