"""What loading does with its time, stage by stage, in the workers and in the process that trains.

One row is a stage of a DataLoader on a rank. Not every batch is recorded: each span says how many it stands for, and
`count`, `wall` and `cpu` are sums with these weights. `where` says who did it: the main thread of a worker, its feeder
thread, the main process, or there the pin-memory thread. Stages of one thread lie one after another, with two
exceptions. Sample and collate are parts of fetch. Receive and send index are parts of wait or of start workers.
`waiting` is wall time without CPU time: for a disk, the network, a lock or a core. `share` is of the time from the
loader's first span to its last, summed over the processes that have the stage. With num_workers=0 the main process
fetches.

The stages of batches:

- index wait: a worker has nothing to do;
- fetch: a worker loads a batch; its parts are sample (a `__getitem__` or `__getitems__`) and collate;
- put: hands the batch to the feeder thread;
- serialize: copies it into shared memory;
- send: waits for the pipe and writes;
- send index: the sampler, and the order to a worker;
- wait: data wait of the training process; its part receive takes the batch out of the queue;
- pin: copies it into pinned memory.

The stages of workers: start (the process, until its loop begins), set up (until it asks for work), start workers and
stop workers (the training process, which waits meanwhile). `loader_starts` has them one by one.
"""

import polars as pl

from stepscope.analyses.lib.result_tables import RANK, quotient, shaped
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "IN_WORKERS", "RECORD_LOADING", "loader_stages"]

IN_WORKERS = "let workers load: `stepscope run --set num_workers=2 -- COMMAND`"
RECORD_LOADING = "record them: `stepscope run -- COMMAND`; only torch's and torchdata's DataLoader are seen"

COLUMNS = (
    RANK,
    Column("loader", pl.Int64, None, "number of the DataLoader; null: one inside a worker, or of another thread"),
    Column("stage", pl.String, None, "what was done"),
    Column("where", pl.String, None, "worker, feeder thread, main process or pin-memory thread"),
    Column("count", pl.Int64, "count", "how often"),
    Column("wall", pl.Int64, "ns", "time in it"),
    Column("cpu", pl.Int64, "ns", "CPU time of its thread; null: not read"),
    Column("waiting", pl.Int64, "ns", "wall - cpu, at least 0; null: not read"),
    Column("mean", pl.Float64, "ns", "wall / count"),
    Column("share", pl.Float64, "ratio", "of the time that the loader was used, summed over its processes"),
)
_FEEDER = ("serialize", "send")
_KEYS = ("rank", "loader", "stage", "where")


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, loader and time. Raises MissingData without spans of loading."""
    spans = run.table("loader_spans", how=RECORD_LOADING).filter(pl.col("stage") != "end").with_columns(where=_where())
    alive = spans.group_by("rank", "loader", "pid").agg(alive=pl.col("end").max() - pl.col("start").min())
    wall, weight = pl.col("end") - pl.col("start"), pl.col("weight")
    sums = spans.group_by(_KEYS).agg(
        count=weight.sum(), wall=(wall * weight).sum(), known=pl.col("cpu").is_not_null().all(),
        cpu=(pl.col("cpu") * weight).sum(),
    ).with_columns(cpu=pl.when("known").then("cpu"))  # fmt: skip
    lives = spans.select(*_KEYS, "pid").unique().join(alive, on=("rank", "loader", "pid"), nulls_equal=True)
    lives = lives.group_by(_KEYS).agg(pl.col("alive").sum())
    rows = sums.join(lives, on=_KEYS, nulls_equal=True).with_columns(
        waiting=(pl.col("wall") - pl.col("cpu")).clip(lower_bound=0),
        mean=quotient(pl.col("wall"), pl.col("count")),
        share=pl.when(pl.col("alive") > 0).then(quotient(pl.col("wall"), pl.col("alive"))),
    )
    order = ("rank", "loader", "wall", "stage", "where")
    return shaped(rows.sort(order, descending=[name == "wall" for name in order]), COLUMNS)


def _where() -> pl.Expr:
    stage, main = pl.col("stage"), pl.col("worker").is_null()
    return (
        pl.when(stage == "pin").then(pl.lit("pin-memory thread"))
        .when(main).then(pl.lit("main process"))
        .when(stage.is_in(_FEEDER)).then(pl.lit("feeder thread"))
        .otherwise(pl.lit("worker"))
    )  # fmt: skip


ANALYSIS = loader_stages = Analysis(compute=compute, columns=COLUMNS, scope="rank")
