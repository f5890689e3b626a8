"""How many threads operators have, how much of the step more of them could share, and how to set their number."""

import polars as pl

from stepscope.analyses.operators.operators import operators
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice
from stepscope.core.run import Run

__all__ = ["SETS_THREADS", "long_operators", "operator_threads", "thread_advice"]

LONG = 100_000  # ns of an operator alone: shorter ones gain little from threads

SETS_THREADS = r"set_num_threads\(|OMP_NUM_THREADS"
"""Matches lines that set it."""


def operator_threads(run: Run) -> pl.DataFrame:
    """Rank, threads, and of its host `ranks` and `on_host`, the threads of all of them.

    Raises MissingData where no process tells.
    """
    known = run.optional("processes").drop_nulls("threads").unique("rank", keep="last")
    if known.is_empty():
        raise MissingData("number of operator threads", how="run it with `stepscope run -- COMMAND`")
    return known.select("rank", "threads", ranks=pl.len().over("host"), on_host=pl.col("threads").sum().over("host"))


def long_operators(run: Run, rank: int) -> float:
    """The share of the operators' own time that long ones have. Raises MissingData without a trace."""
    own = operators(run).filter(pl.col("rank") == rank)
    long = own.filter(pl.col("host_self") >= LONG * pl.col("calls"))
    return float(long["host_self"].sum()) / max(float(own["host_self"].sum()), 1.0)


def thread_advice(threads: int) -> tuple[Advice, ...]:
    """How to give the operators of a rank so many threads."""
    return (
        Advice(text="Use one thread for each core", code=f"torch.set_num_threads({threads})  # before training"),
        Advice(
            text="Or set it from outside, to try it",
            code=f"OMP_NUM_THREADS={threads} python train.py",
            language="shell",
        ),
    )
