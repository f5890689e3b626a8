"""Every worker of a loader gives the whole data set.

## What it finds
A training loader with two workers or more over an `IterableDataset` none of whose code, nor the function that starts
its workers, asks which worker it is in (`torch.utils.data.get_worker_info`). Each worker has a copy of such a data set
and iterates over all of it.

## Why it costs time
What is meant to be one epoch has each sample as many times as there are workers, so it takes as many times as long;
and the model sees each sample several times in a row, which is not what was asked for. A step itself is not longer, so
no gain per step is given.

## What to do
Share the samples out: in `__iter__` each worker takes every n-th sample, or files of its own. In distributed training
the ranks need shares of their own as well. Libraries do it: `wds.split_by_worker` of WebDataset, `datasets` of Hugging
Face, `MosaicML StreamingDataset`.

## How the gain is predicted
None is predicted per step. The evidence has the number of workers: an epoch gets as many times shorter.

## When it is wrong
The code is read, not run: a data set that learns its worker in another way (from the process's name, a queue, a file
that all workers take their work from) is not recognised, nor is one that draws samples at random without an end, where
workers with seeds of their own do no harm.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MANY = 2  # workers: one gives each sample once


def check(run: Run) -> Iterator[Finding]:
    loaders = run.optional("loaders").filter(pl.col("train").fill_null(False))
    if loaders.is_empty():
        raise MissingData("description of the training loader", how="run it with `stepscope run -- COMMAND`")
    found = loaders.filter(~pl.col("shards").fill_null(True) & (pl.col("num_workers").fill_null(0) >= MANY))
    keys = ("dataset", "dataset_file", "dataset_line")
    for row in found.sort("rank").unique("dataset", keep="first", maintain_order=True).iter_rows(named=True):
        alike = found.filter(pl.all_horizontal(pl.col(key).eq_missing(pl.lit(row[key])) for key in keys))
        yield Finding(
            title="Every worker gives the whole data set",
            cause="data-reading",
            evidence=(
                Evidence(label="num_workers", value=row["num_workers"], unit="count", source="loaders"),
                Evidence(
                    label="times that each sample comes in an epoch", value=row["num_workers"], unit="count",
                    source="loaders",
                ),
            ),
            gain=None,
            advice=_ADVICE,
            ranks=tuple(sorted(set(alike["rank"].to_list()))),
            where=_where(row),
        )  # fmt: skip


def _where(row: dict[str, object]) -> tuple[Place, ...]:
    file, line = row["dataset_file"], row["dataset_line"]
    if not isinstance(file, str) or not isinstance(line, int):
        return ()
    return (Place(file=file, line=line, symbol=str(row["dataset"] or "")),)


_ADVICE = (
    Advice(
        text="Let each worker give its own share of the samples",
        code="def __iter__(self):\n"
        "    info = torch.utils.data.get_worker_info()\n"
        "    worker, workers = (info.id, info.num_workers) if info else (0, 1)\n"
        "    return itertools.islice(self.samples(), worker, None, workers)  # or: files of its own",
    ),
    Advice(text="Or use one worker, if it is fast enough", code="DataLoader(..., num_workers=1)"),
)


def example(synth: Synth, fixed: bool) -> None:
    """4 workers that give everything; the mended data set asks which worker it is in. Steps are as long."""
    synth.add(
        "loaders", loader=0, train=True, dataset="data.Stream", dataset_file="/home/me/data.py", dataset_line=12,
        num_workers=4, batch_size=32, persistent_workers=True, pin_memory=False, shards=fixed,
    )  # fmt: skip
    for step in range(10):
        synth.step(step, 50 * step, 50 * step + 50, data_wait=1, forward=20, backward=25, optimizer=4, samples=32)


RULE = Rule(check=check, example=example)
