"""How many threads operators have, how much of the step more of them could share, and how to set their number.

With an example run for the rules about it.
"""

import polars as pl

from stepscope.analyses.operators.operators import operators
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

__all__ = ["SETS_THREADS", "long_operators", "operator_threads", "thread_advice", "thread_example"]

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


def thread_example(synth: Synth, *, threads: int, computing: float, affinity: int | None = None) -> None:
    """Steps of `computing` ms in long operators on a machine of two cores, one for each thread."""
    synth.add("meta", source="run.json", key="cores", value='{"machine": 2, "affinity": 2, "effective": 2}')
    synth.add("processes", rank=0, host="n0", threads=threads, affinity=affinity)
    for step in range(12):
        start, traced = step * computing, step >= 10
        tags = ("traced",) if traced else ()
        synth.step(step, start, start + computing, forward=30, backward=computing - 30, optimizer=0, tags=tags)
        if traced:
            synth.host(f"ProfilerStep#{step}", "annotation", start, start + computing)
            synth.host("aten::convolution", "operator", start, start + 30)
            name = "autograd::engine::evaluate_function: ConvolutionBackward0"
            synth.host(name, "operator", start + 30, start + computing, forward_thread=1, sequence=step)
        time = int((start + computing / 2) * MS)
        synth.add("system", time=time, what="core wait", value=0.0, unit="ratio")
        synth.add("system", time=time, rank=None, what="job CPU", value=0.1 + 0.9 * threads, unit="cores")
        synth.add("system", time=time, rank=None, what="other CPU", value=0.02, unit="cores")
