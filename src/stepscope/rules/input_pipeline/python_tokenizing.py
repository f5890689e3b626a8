"""Python code tokenizes texts one at a time, again in every epoch.

## What it finds
Training waits for data for more than 5 % of its steps, and the workers compute rather than wait. No number of workers
is enough on the available cores. And 30 % or more of data-loading CPU time is tokenizing, by the name of the call, or
of the function in sampled lines of a data set or collate function. The call is CPU-bound and none of the known compiled
tokenizers.

## Why it costs time
Python walks a text letter by letter and word by word, and creates an object for each. A sample has the same tokens in
each epoch, so every epoch but the first repeats the work.

## What to do
Tokenize once before training and store the token ids: `__getitem__` then only looks them up. If texts are new each
time, pass whole batches to a compiled tokenizer in the collate function.

## How the gain is predicted
The loader is simulated without tokenizing, as with stored token ids, and with tokenizing 2, 4 and 10 times faster. A
compiled tokenizer with the same vocabulary took 2.5 times less CPU time than a simple Python one on whole batches. On
single texts it took 1.6 times less. All are the likeliest values of the simulation.

## When it is wrong
A function named after tokens that does something else, such as counting them, is taken for a tokenizer. So is a
compiled tokenizer with an unknown name: the factor is then too large. Texts that change at random before tokenizing
cannot be tokenized once.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.analyses.lib.line_places import LOADING_TIME, line_place
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.models.input_stall import (
    InputStall,
    LoadingStage,
    ceiling,
    heaviest,
    input_stall,
    part_of_lines,
    partly_faster,
    stage_evidence,
)

__all__ = ["RULE"]

MIN_SHARE = 0.3  # of the CPU time of making a batch: as for collating, which is where compiled tokenizers are called
MIN_RUNNING = 0.8  # of a part's time on a core: with less it waits, for a server that tokenizes or for files
MIN_SAMPLES = 10  # of lines: fewer may be chance
NAMED = re.compile(r"(?i)token|word_?piece|bpe|(^|[._])encode(_?texts?)?$")
COMPILED = re.compile(r"Fast$|tiktoken|sentencepiece|(^|[ ./])tokenizers[./]|tokenization_utils_fast|youtokentome")
_WHOLE = ("transform", "label", "collate", "sample")  # stages whose name may say it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tokenizing:
    """What makes tokens: the call, how much of that part, and where."""

    part: LoadingStage
    of_part: float
    where: tuple[Place, ...]


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    part = heaviest(found) if found is not None else None
    if found is None or part is None or part.stage not in _WHOLE or COMPILED.search(part.name):
        return
    told = _tokenizing(run, found, part)
    if told is None or told.of_part * part.share < MIN_SHARE or part.cpu < MIN_RUNNING * (part.cpu + part.idle):
        return
    share = told.of_part * part.share
    yield Finding(
        title=Title(
            "{} tokenizes in Python, again every epoch: {} of data loading", (_tokenizer(told), Value(share, "ratio"))
        ),
        cause="data-reading",
        evidence=stage_evidence(
            found, part,
            Evidence(label="tokenizing share", value=share, unit="ratio",
                     source="loader_transforms" if told.of_part == 1 else "loader_lines"),
        ),
        gain=ceiling(found, lambda factor: partly_faster(part, told.of_part, factor)),
        advice=_ADVICE,
        ranks=found.ranks,
        where=told.where,
        replaces=("slow-transform", "slow-collate", "few-workers"),
    )  # fmt: skip


def _tokenizing(run: Run, found: InputStall, part: LoadingStage) -> _Tokenizing | None:
    """The heaviest part, if its name or the lines in it say that it makes tokens."""
    if NAMED.search(part.name):
        return _Tokenizing(part=part, of_part=1.0, where=hot_lines(run, found.ranks[0], part.place))
    try:
        lines = loader_lines(run).filter(of_training(run, found.model.pipeline.rank))
    except MissingData:
        return None
    function, call, leaf = (pl.col(name).fill_null("") for name in ("function", "call", "leaf"))
    named = function.str.contains(NAMED.pattern) | call.str.split(" ").list.last().str.contains(NAMED.pattern)
    compiled = pl.concat_str(call, leaf, separator=" ").str.contains(COMPILED.pattern)
    own = lines.filter(named & ~compiled).sort("wall", "file", "line", descending=True)
    if int(own["samples"].sum()) < MIN_SAMPLES:
        return None
    return _Tokenizing(part=part, of_part=part_of_lines(found, part, float(own["share"].sum())), where=_places(own))


def _tokenizer(told: _Tokenizing) -> str:
    if told.of_part == 1.0 or not told.where:
        return told.part.called
    return told.where[0].symbol or told.part.called


def _places(lines: pl.DataFrame) -> tuple[Place, ...]:
    rows = lines.filter(pl.col("file").is_not_null() & pl.col("line").is_not_null()).head(1)
    return tuple(line_place(row, row["share"], LOADING_TIME) for row in rows.iter_rows(named=True))


_ADVICE = (
    Advice(
        text="Tokenize once before training and store the token ids",
        code="class Texts(Dataset):\n    def __init__(self, texts):\n"
        '        self.tokens = tokenizer(texts, truncation=True)["input_ids"]  # or numpy.load(path, mmap_mode="r")\n\n'
        "    def __getitem__(self, index):\n        return torch.as_tensor(self.tokens[index])",
    ),
    Advice(
        text="Or tokenize whole batches with a compiled tokenizer",
        code="def collate(texts):\n"
        '    return fast_tokenizer(texts, padding=True, truncation=True, return_tensors="pt")\n'
        "# TOKENIZERS_PARALLELISM=false in the environment: the workers have the cores already",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly with tokens, as sampled lines tell; the fix keeps the numbers."""
    tokens, length = (0.5, 10) if fixed else (35, 20)
    parts = (("sample", "data.Texts", tokens + 2, tokens + 2), ("collate", "torch.c", 2, 2))
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, used=(tokens + 5) / length)
    for step in range(40):
        for part in range(4):
            synth.add(
                "worker_stacks", worker=step % 2, loader=0, pid=str(100 + step % 2),
                time=round((step * length + part) * MS), weight=MS, file="/home/me/data.py", line=12 + part,
                function="__getitem__" if fixed else "tokenize", text="return self.tokens[index]",
            )  # fmt: skip


RULE = Rule(check=check, example=example, explains="input-bound")
