"""Every worker of a loader yields the whole data set.

## What it finds
A training loader with two or more workers over an `IterableDataset`. Neither its code nor the loader's `worker_init_fn`
calls `torch.utils.data.get_worker_info`. Each worker has a copy of the data set and iterates over all of it.

## Why it costs time
Each epoch has every sample once per worker, so it takes that many times longer. The model sees each sample several
times in a row. A single step is not longer.

## What to do
Split the samples: in `__iter__`, each worker takes every n-th sample, or its own files. In distributed training the
ranks need their own shares, too. Libraries do it: WebDataset's `wds.split_by_worker`, Hugging Face's `datasets`,
`MosaicML StreamingDataset`.

## How the gain is predicted
Of n workers all but one repeat what the first gives, so (n - 1) / n of all steps are saved. Those that are left are as
long as before, within 12 % (measured: 10 % shorter).

## When it is wrong
The code is read, not run. A data set may learn its worker in another way: from the process's name, a queue, or a file
with the work of all workers. That is not recognized. Nor is endless random sampling, which is fine if each worker has
its own seed.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from stepscope.analyses.input_pipeline.lib.hot_lines import statement_lines
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

STEPS_DIFFER = 0.12  # without the repeated work on the cores, steps were up to 10 % shorter
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
            title=Title("Every worker yields the whole dataset: {}× duplicates", (Value(row["num_workers"], "count"),)),
            cause="data-reading",
            evidence=(
                Evidence(label="copies of each sample", value=row["num_workers"], unit="count", source="loaders"),
                Evidence(label="num_workers", value=row["num_workers"], unit="count", source="loaders"),
            ),
            gain=_gain(run, row["num_workers"]),
            advice=_ADVICE,
            ranks=tuple(sorted(set(alike["rank"].to_list()))),
            where=_where(run, row),
        )  # fmt: skip


def _gain(run: Run, copies: int) -> Gain | None:
    """All steps but the first copy of each; None where no steps are known."""
    try:
        step = round(steady_steps(run)["duration"].to_numpy().mean())
    except MissingData:
        return None
    saved = round(step * (copies - 1) / copies)
    return Gain(
        low_ns=round(saved * (1 - STEPS_DIFFER)),
        high_ns=round(saved * (1 + STEPS_DIFFER)),
        step_ns=step,
        basis=f"each sample comes once per worker, so all steps but one in {copies} are repeated",
        confidence="structural",
        pool="repeated-steps",
    )


def _where(run: Run, row: dict[str, Any]) -> tuple[Place, ...]:
    file, line = row["dataset_file"], row["dataset_line"]
    if not isinstance(file, str) or not isinstance(line, int):
        return ()
    place = Place(file=file, line=line, symbol=str(row["dataset"] or ""))
    return statement_lines(run, row["rank"], place, ("for", "while", "yield", "return"))


_ADVICE = (
    Advice(
        text="Yield only this worker's share of the samples",
        code="def __iter__(self):\n"
        "    info = torch.utils.data.get_worker_info()\n"
        "    worker, workers = (info.id, info.num_workers) if info else (0, 1)\n"
        "    return itertools.islice(self.samples(), worker, None, workers)  # or: files of its own",
    ),
    Advice(text="Or set num_workers=1, if one worker is fast enough", code="DataLoader(..., num_workers=1)"),
)


def example(synth: Synth, fixed: bool) -> None:
    """4 workers that give everything; the fixed data set asks which worker it is in. Steps are as long, but fewer."""
    synth.add(
        "loaders", loader=0, train=True, dataset="data.Stream", dataset_file="/home/me/data.py", dataset_line=12,
        num_workers=4, batch_size=32, persistent_workers=True, pin_memory=False, shards=fixed,
    )  # fmt: skip
    for step in range(10 if fixed else 40):
        synth.step(step, 50 * step, 50 * step + 50, data_wait=1, forward=20, backward=25, optimizer=4, samples=32)


RULE = Rule(check=check, example=example)
