"""The same file is opened or loaded again and again to make samples.

## What it finds
Training waits for batches for more than 5 % of its steps; half or more of the recorded calls of a reader (`np.load`,
`torch.load`, `json.load`, `pickle.load`, `h5py.File`, `zipfile.ZipFile`, pandas' `read_csv` and `read_parquet`,
Pillow's `open`) are for a file that the same process has read before in the same epoch; and a simulation of this very
loader without these calls says that the step gets shorter.

## Why it costs time
Each call opens the file, reads its header or all of it, and parses it, only to take one sample out. A worker could keep
what it has opened.

## What to do
Open the file once in each worker, when its first sample is asked for (not in `__init__`: an open file that is shared
with forked workers has one position for all of them), and keep it. Map arrays into memory (`mmap_mode="r"`) and take
single samples out of them. Where samples are spread over many files, keep those that were used last, or read samples
in the order of the files.

## How the gain is predicted
The loader is simulated without these calls, and with four of five repetitions gone. What taking one sample out of an
open file costs is not known; the range includes the known errors of the simulation.

## When it is wrong
A file may be read again because it has changed, or because all of them together do not fit into memory. A sampler that
draws with replacement asks for the same small file again, which is no waste. Files are told apart by the name they are
opened by; readers that are not listed above are not seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import polars as pl

from stepscope.analyses._worker_calls import of_training
from stepscope.analyses.loader_stages import RECORD_LOADING
from stepscope.core.finding import Advice, Evidence, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.predict.loader_model import predict
from stepscope.predict.waiting_input import Part, WaitingInput, faster, gain, part_evidence, pays, waiting_input

__all__ = ["RULE"]

MIN_REPEATED = 0.5  # of the calls of a reader; where each sample has its file, none is repeated in an epoch
LESS = 0.8  # of the repetitions gone: the least that is worth keeping a file open
MIN_CALLS = 8  # of a reader: with fewer chance may name the same file twice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repeated:
    """Recorded calls of a reader on files that have a name, the files, and the part of the calls that repeats one."""

    name: str
    calls: int
    files: int
    share: float


def check(run: Run) -> Iterator[Finding]:
    found = waiting_input(run)
    if found is None:
        return
    read = {part.name: part for part in found.parts if part.stage == "read"}
    for reader in _repeated(run, found):
        if reader.name in read:
            yield from _finding(found, reader, read[reader.name])
            return


def _finding(found: WaitingInput, reader: _Repeated, part: Part) -> Iterator[Finding]:
    factors = (1 / (1 - LESS * reader.share), inf)
    changes = faster((reader.name,), factors)
    if not pays(found, predict(found.model, changes)[0]):
        return
    yield Finding(
        title="The same file is opened or loaded again and again",
        cause="data-reading",
        evidence=(
            *part_evidence(found, part),
            Evidence(label=f"recorded calls of {reader.name}", value=reader.calls, unit="count", source="loader_spans"),
            Evidence(label="different files in them", value=reader.files, unit="count", source="loader_spans"),
            Evidence(label="mean share of calls for a file that the process had read in the epoch",
                     value=reader.share, unit="ratio", source="loader_spans"),
        ),
        gain=gain(found, changes, "a file is opened once and kept"),
        advice=_ADVICE,
        ranks=found.ranks,
        where=found.data_set,
    )  # fmt: skip


def _repeated(run: Run, found: WaitingInput) -> list[_Repeated]:
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
        _Repeated(name=str(name), calls=calls, files=files, share=1 - first / calls)
        for name, calls, _, files, first in rows.iter_rows()
        if calls >= MIN_CALLS and calls - first >= MIN_REPEATED * calls
    ]


_ADVICE = (
    Advice(
        text="Open it once in each worker, when the first sample is asked for, and keep it",
        code="def __getitem__(self, index):\n"
        "    if self.data is None:  # None in __init__: each worker opens it for itself\n"
        '        self.data = np.load(self.path, mmap_mode="r")  # or h5py.File(self.path, "r")["data"]\n'
        "    return torch.tensor(self.data[index])",
    ),
    Advice(
        text="Of many files keep those that were used last",
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


RULE = Rule(
    check=check, example=example, explains="input-bound", replaces=("slow-transform", "few-workers", "waiting-reads")
)
