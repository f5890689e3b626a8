"""The same file is opened or loaded repeatedly to get samples.

## What it finds
Training waits for data for more than 5 % of its steps. Half or more of the recorded calls of a reader are for a file
that the same process has read before in the same epoch. Readers are `np.load`, `torch.load`, `json.load`,
`pickle.load`, `h5py.File`, `zipfile.ZipFile`, pandas' `read_csv` and `read_parquet`, and Pillow's `open`. A simulation
of the loader without these calls makes the step shorter.

## Why it costs time
Each call opens the file, reads its header or all of it, and parses it, to get one sample. A worker could keep it open.

## What to do
Open the file once per worker, at its first sample, and keep it open. Do not open it in `__init__`: forked workers would
share one file position. Map arrays into memory (`mmap_mode="r"`) and read single samples from them. If samples are
spread over many files, cache the last ones used, or read samples in the order of the files.

## How the gain is predicted
The loader is simulated without these calls, and with four of five repetitions gone. The cost of reading one sample from
an open file is not known. The range includes the known errors of the simulation.

## When it is wrong
A file may be read again because it changed, or because all files together do not fit into memory. A sampler with
replacement asks for the same small file again, which is no waste. Files are told apart by the name used to open them.
Readers not listed above are not seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TypedDict

import polars as pl

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.input_stall import (
    InputStall,
    LoadingStage,
    faster,
    gain,
    input_stall,
    pays,
    short,
    stage_evidence,
)
from stepscope.models.loader_model import predict

__all__ = ["RULE"]

MIN_REPEATED = 0.5  # of the calls of a reader; where each sample has its file, none is repeated in an epoch
LESS = 0.8  # of the repetitions gone: the least that is worth keeping a file open
MIN_CALLS = 8  # of a reader: with fewer chance may name the same file twice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repeated:
    """Recorded calls of a reader on files that have a name, the files, and the part of the calls that repeats one.

    `batches` are those in which it was called; `epochs` those that had ended, `per_epoch` its mean calls in one.
    """

    name: str
    calls: int
    files: int
    share: float
    batches: int
    epochs: int
    per_epoch: float


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    if found is None:
        return
    read = {part.name: part for part in found.parts if part.stage == "read"}
    for reader in _repeated(run, found):
        if reader.name in read:
            yield from _finding(run, found, reader, read[reader.name])
            return


def _finding(run: Run, found: InputStall, reader: _Repeated, part: LoadingStage) -> Iterator[Finding]:
    factors = (1 / (1 - LESS * reader.share), inf)
    changes = faster((reader.name,), factors)
    if not pays(found, predict(found.model, changes)[0]):
        return
    yield Finding(
        title=_title(found, reader),
        cause="data-reading",
        evidence=stage_evidence(
            found, part,
            Evidence(label=f"{short(reader.name)} calls recorded", value=reader.calls, unit="count",
                     source="loader_spans"),
            Evidence(label="distinct files", value=reader.files, unit="count", source="loader_spans"),
            Evidence(label="repeated calls share",
                     value=reader.share, unit="ratio", source="loader_spans"),
            Evidence(label="worker busy share", value=found.busy, unit="ratio", source="loader_workers"),
        ),
        gain=gain(found, changes, f"{short(reader.name)} once per file and worker"),
        advice=_ADVICE,
        ranks=found.ranks,
        where=hot_lines(run, found.ranks[0], calls=reader.name) or hot_lines(run, found.ranks[0], found.data_set),
        replaces=("slow-transform", "few-workers", "slow-storage"),
    )  # fmt: skip


def _title(found: InputStall, reader: _Repeated) -> Title:
    """How often a file is loaded: in an epoch where one has ended, else in so many batches or samples."""
    file: tuple[str, ...] = (reader.name, "the same file" if reader.files == 1 else "each file")
    if reader.epochs:
        return Title("{} loads {} {}× per epoch", (*file, _times(reader.per_epoch / reader.files)))
    times = _times(reader.calls / reader.files)
    if found.model.pipeline.batch_size is None:
        batches = plural(reader.batches, "batch", "batches")
        return Title(f"{{}} loads {{}} {{}}× in {{}} {batches}", (*file, times, Value(reader.batches, "count")))
    samples = Value(reader.batches * found.model.pipeline.batch_size, "count")
    return Title(f"{{}} loads {{}} {{}}× in {{}} {plural(samples.value, 'sample')}", (*file, times, samples))


def _times(loads: float) -> Value:
    return Value(round(loads), "count")


def _repeated(run: Run, found: InputStall) -> list[_Repeated]:
    """Readers that repeat files, the one with the most time first."""
    rank = found.model.pipeline.rank
    reads = run.table("loader_spans", how=RECORD_LOADING).filter(
        of_training(run, rank) & (pl.col("stage") == "read") & pl.col("read_file").is_not_null()
    )  # fmt: skip
    per_file = reads.group_by("name", "pid", "iterator", "epoch", "read_file").agg(
        calls=pl.len(), time=(pl.col("end") - pl.col("start")).sum()
    )
    rows = per_file.group_by("name").agg(
        pl.col("calls").sum(), pl.col("time").sum(), files=pl.col("read_file").n_unique(), first=pl.len()
    ).sort(["time", "name"], descending=[True, False])  # fmt: skip
    return [
        _Repeated(name=str(name), calls=calls, files=files, share=1 - first / calls, **_spread(reads, str(name)))
        for name, calls, _, files, first in rows.iter_rows()
        if calls >= MIN_CALLS and calls - first >= MIN_REPEATED * calls
    ]


class _Spread(TypedDict):
    batches: int
    epochs: int
    per_epoch: float


def _spread(reads: pl.DataFrame, name: str) -> _Spread:
    """Over how many batches and ended epochs the calls of a reader are spread: all epochs but the last have ended."""
    own = reads.filter(pl.col("name") == name)
    batches = own.select("iterator", "epoch", "batch").unique().height
    epochs = own.group_by("iterator", "epoch").agg(pl.col("start").min(), calls=pl.col("weight").fill_null(1).sum())
    ended = epochs.sort("start")["calls"].head(-1)
    return _Spread(batches=batches, epochs=len(ended), per_epoch=float(ended.sum()) / max(len(ended), 1))


_ADVICE = (
    Advice(
        text="Open the file once per worker, on its first sample, and keep it open",
        code="def __getitem__(self, index):\n"
        "    if self.data is None:  # None in __init__: each worker opens it for itself\n"
        '        self.data = np.load(self.path, mmap_mode="r")  # or h5py.File(self.path, "r")["data"]\n'
        "    return torch.tensor(self.data[index])",
    ),
    Advice(
        text="With many files, cache the last ones used",
        code="@functools.lru_cache(maxsize=4)\ndef part(path):\n    return torch.load(path, mmap=True)",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly by loading one file for each of 16 samples; training needs none."""
    loading = 0.0 if fixed else 36
    opened = () if fixed else (("read", "numpy.load", loading, loading),)
    parts = (*opened, ("sample", "data.Pictures", 3, 3), ("collate", "torch.c", 1, 1))
    length = 10 if fixed else 20.5
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, used=(loading + 5) / length, read_file=7)


RULE = Rule(check=check, example=example, explains="input-bound")
