"""Training steps and where the host's time in each went.

One row is a step of a rank. Times are ns. Runs recorded by `stepscope run` carry the probe's own clock (`clock` host or
host-backward). The steps of a trace are its `ProfilerStep#N` annotations (`clock` kineto). There the phases are:

- data_wait: the loader's annotations, without the shutdown of its workers where Python stacks show it;
- forward: from the end of the data wait to backward;
- backward: from the first to the last operator of autograd in each micro-batch, or the frame of the call where stacks
  were recorded;
- optimizer: `Optimizer.step#…`.

The parts data_wait, forward, backward, optimizer and other add up to duration exactly. data_wait is null when no loader
was seen, and counts as 0.

In runs of more than a million steps, a row is the mean of `weight` steps. They are alike in length and tags, and ran
about the same time. All rows that averages are from have one weight.

Tags added here:

- `warm-up`: the first three steps of a rank on the probe's clock;
- `traced`: steps of a trace;
- `long`: more than five times the median of the rank's untraced steps, or of all its steps if all are traced;
- `empty`: steps of a trace without any operator, and steps without length.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, RECORD_STEPS, shaped, table
from stepscope.analyses.lib.trace_phases import PHASES, TracedStep, traced_steps
from stepscope.core.errors import MissingData
from stepscope.core.intervals import total
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

HOW_STEPS = f"{RECORD_STEPS}; in a trace, call the profiler's step() after each step"

COLUMNS = (
    RANK,
    Column("step", pl.Int64, None, "number of the step"),
    Column("start", pl.Int64, "ns", "start", "row"),
    Column("end", pl.Int64, "ns", "end", "row"),
    Column("duration", pl.Int64, "ns", "end - start"),
    Column("data_wait", pl.Int64, "ns", "waiting for the training loader; null: no loader was seen"),
    Column(
        "forward",
        pl.Int64,
        "ns",
        "from the batch to the start of backward; null: no step has a backward, or none ran in an empty one",
    ),
    Column("backward", pl.Int64, "ns", "backward; null as forward"),
    Column("optimizer", pl.Int64, "ns", "the optimizer's step, without backward calls of a closure; null as forward"),
    Column("other", pl.Int64, "ns", "the rest"),
    Column("samples", pl.Int64, "count", "samples; null: not counted"),
    Column("micro_batches", pl.Int64, "count", "backward calls"),
    Column("clock", pl.String, None, "host or host-backward (probe), kineto (trace)"),
    Column("tags", pl.List(pl.String), None, "warm-up, traced, tracing, long, empty, evaluation, epoch-start, …"),
    Column("weight", pl.Int64, "count", "steps of a long run that the row, their mean, stands for; else 1"),
)
MODEL = ("forward", "backward", "optimizer")
# Allocators, caches and lazy initialization settle in the first steps.
WARM_UP_STEPS = 3
# Far above the spread of steps that do the same work, far below a checkpoint or a validation of a real job.
LONG = 5


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and time. Raises MissingData if neither the probe nor a trace shows a step."""
    recorded = run.optional("steps").with_columns(
        duration=pl.col("end") - pl.col("start"), weight=pl.col("weight").fill_null(1)
    )
    seen = set(recorded["rank"].unique())
    derived = _derived([step for step in traced_steps(run) if step.rank not in seen])
    steps = pl.concat([shaped(recorded, COLUMNS), derived]).sort("rank", "start", "step")
    if steps.is_empty():
        raise MissingData("training steps", how=_told(run) or HOW_STEPS)
    parts = pl.col("data_wait").fill_null(0) + pl.sum_horizontal(*PHASES[1:])
    assert steps.select((parts == pl.col("duration")).all()).item()
    return _tagged(steps)


def weight_of(rows: pl.DataFrame) -> int:
    """How many steps each row of steady steps stands for; 1 but in a long run."""
    weight = rows["weight"].max()
    return weight if isinstance(weight, int) else 1


def _told(run: Run) -> str:
    """Why the recorder saw no step, and what to do; empty where it did not record the run."""
    return "".join(run.optional("meta").filter(pl.col("key") == "no_steps")["value"].drop_nulls().head(1))


def _derived(traced: list[TracedStep]) -> pl.DataFrame:
    """Steps of ranks that only a trace shows. Without any backward or optimizer nothing tells where forward ends."""
    busy = {step.rank for step in traced if step.operators}
    rows = table((_row(step, step.rank in busy and not step.operators) for step in traced), COLUMNS)
    trains = pl.any_horizontal((pl.col("backward", "optimizer").sum() > 0).over("rank"))
    told = trains & ~_has("empty")
    return rows.with_columns(
        pl.when(told).then(pl.col(MODEL)), other=pl.when(told).then("other").otherwise(pl.sum_horizontal(*PHASES[1:]))
    )


def _row(step: TracedStep, is_empty: bool) -> tuple[object, ...]:
    times = {phase: total(step.phases[phase]) for phase in PHASES}
    waited = times["data_wait"] if step.has_loader else None
    rest = tuple(times[phase] for phase in PHASES[1:])
    span = (step.start, step.end, step.end - step.start)
    tags = ["traced", "empty"] if is_empty else ["traced"]
    return (step.rank, step.step, *span, waited, *rest, None, step.backwards, "kineto", tags, 1)


def _tagged(steps: pl.DataFrame) -> pl.DataFrame:
    untraced = ~_has("traced") & ~_has("tracing")
    median = pl.col("duration").filter(untraced).median().over("rank")
    usual = pl.coalesce(median, pl.col("duration").median().over("rank"))
    place = pl.int_range(pl.len()).over("rank")
    flags = {
        "warm-up": (pl.col("clock") != "kineto").fill_null(True) & (place < WARM_UP_STEPS),
        "long": pl.col("duration") > LONG * usual,
        "empty": pl.col("duration") <= 0,
    }
    known = pl.col("tags").fill_null([])
    added = [
        pl.when(flag & ~known.list.contains(tag)).then(pl.lit([tag])).otherwise(pl.lit([], pl.List(pl.String)))
        for tag, flag in flags.items()
    ]
    return steps.with_columns(tags=pl.concat_list(known, *added))


def _has(tag: str) -> pl.Expr:
    return pl.col("tags").list.contains(tag).fill_null(False)


LEADING = ("step", "duration", "data_wait", "forward", "backward", "optimizer", "other", "samples", "tags")
ANALYSIS = steps = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
