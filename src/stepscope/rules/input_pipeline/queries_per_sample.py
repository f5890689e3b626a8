"""Each sample asks a database.

## What it finds
Training waits for data for more than 5 % of its steps, and the available cores hold too few workers to change that. In
30 % or more of the sampled time of loading, lines of `__getitem__` or what it calls run queries: `execute`, `fetchone`
and the like, or a client library (sqlite3, psycopg, SQLAlchemy, pymongo, redis).

## Why it costs time
A query is parsed, planned and answered row by row, and its values become Python objects. A server adds a way there and
back for each. One query for all samples of a batch pays most of that once.

## What to do
Define `__getitems__`: torch calls it with the indices of a whole batch. Or read the table once, before training, if it
fits into memory.

## How the gain is predicted
The loader is simulated without these queries, and with them 2, 4 and 10 times faster. One query for a batch of 64,
instead of 48 for each sample, took a tenth of the CPU time where it was measured (SQLite). All are the likeliest
values of the simulation.

## When it is wrong
A call named `execute` that asks no database counts as one. Queries that fetch large values gain less.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.analyses.lib.line_places import LOADING_TIME, line_place
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.models.input_stall import (
    InputStall,
    ceiling,
    heaviest,
    input_stall,
    part_of_lines,
    partly_faster,
    stage_evidence,
)

__all__ = ["RULE"]

MIN_SHARE = 0.3  # of the time of making a batch: less is not what makes loading slow
MIN_SAMPLES = 10  # of lines: fewer may be chance
_QUERY = r"\.(execute|executemany|fetchone|fetchall|fetchmany|find_one|hgetall|mget)\("
_CLIENT = r"^(sqlite3|psycopg2?|sqlalchemy|pymysql|MySQLdb|pymongo|redis|duckdb|asyncpg)/"
_STAGES = ("transform", "label", "sample")  # where code of one sample runs


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    part = heaviest(found) if found is not None else None
    if found is None or part is None or part.stage not in _STAGES:
        return
    lines = _queries(run, found)
    share = float(lines["share"].sum())
    if share < MIN_SHARE or int(lines["samples"].sum()) < MIN_SAMPLES:
        return
    of_part = part_of_lines(found, part, share)
    yield Finding(
        title=Title("{} queries a database for each sample: {} of data loading", (part.called, Value(share, "ratio"))),
        cause="data-reading",
        evidence=stage_evidence(
            found, part, Evidence(label="query share", value=share, unit="ratio", source="loader_lines")
        ),
        gain=ceiling(found, lambda factor: partly_faster(part, of_part, factor)),
        advice=_ADVICE,
        ranks=found.ranks,
        where=tuple(line_place(row, row["share"], LOADING_TIME) for row in lines.head(2).iter_rows(named=True)),
        replaces=("slow-transform", "slow-storage", "few-workers"),
    )


def _queries(run: Run, found: InputStall) -> pl.DataFrame:
    """Lines that ask a database, the longest first."""
    try:
        lines = loader_lines(run).filter(of_training(run, found.model.pipeline.rank))
    except MissingData:
        return pl.DataFrame(schema={"share": pl.Float64, "samples": pl.Int64})
    text, call = (pl.col(name).fill_null("") for name in ("text", "call"))
    asks = text.str.contains(_QUERY) | call.str.contains(_CLIENT)
    return lines.filter(asks).drop_nulls(["file", "line"]).sort("wall", "file", "line", descending=True)


_ADVICE = (
    Advice(
        text="Ask once for all samples of a batch, in `__getitems__`",
        code="def __getitems__(self, indices):  # torch calls it with all indices of a batch\n"
        '    marks = ",".join("?" * len(indices))\n'
        '    query = f"SELECT id, data FROM samples WHERE id IN ({marks})"\n'
        "    found = dict(self.db.execute(query, indices))\n"
        "    return [decode(found[index]) for index in indices]",
    ),
    Advice(text="Or read the table once, before training, if it fits into memory"),
)


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly with queries, as sampled lines tell; the fix asks once for each batch."""
    asked, length = (0.5, 10) if fixed else (35, 20)
    parts = (("sample", "data.Rows", asked + 2, asked + 2), ("collate", "torch.c", 2, 2))
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, used=(asked + 5) / length)
    for step in range(40):
        for part in range(4):
            synth.add(
                "worker_stacks", worker=step % 2, loader=0, pid=str(100 + step % 2),
                time=round((step * length + part) * MS), weight=MS, file="/home/me/data.py", line=12 + part,
                function="__getitem__", text="return pixels / 255" if fixed else "row = self.db.execute(ASK, (index,))",
            )  # fmt: skip


RULE = Rule(check=check, example=example, explains="input-bound")
