"""Operators compute with more threads than the job has cores.

## What it finds
The threads of operators on one host, those of all its ranks together, are more than the cores that the job may use. And
the main thread of a rank was ready but had no core for more than 10 % of the steady steps, for no reason outside the
job. In a container the cores are those of its CPU limit.

## Why it costs time
An operator ends when its last thread ends. With more threads than cores some of them wait, and the others spin until
these have had their turn. Many short operators lose most: with 8 threads on 2 cores a step of small convolutions took
42 ms, with 2 threads 13 ms.

## What to do
One thread for each core: `torch.set_num_threads(cores)` before training, or `OMP_NUM_THREADS` in the environment. With
several ranks on a host, the cores divided by the ranks. In a container ask for more cores, if training needs them.

## How the gain is predicted
0.8 to 1.5 times the wait of the main thread, as operator threads wait too, and no more than the threads above the cores
can cost. With 3 to 16 threads on 2 cores, small convolutions lost 1.1 to 1.4 times that wait. Large matrix products
lost nothing to 0.4 times: their library divides the work better, so their share of the operators' time is left out.

## When it is wrong
Loader workers that use the cores make the main thread wait, too. If the data wait is large, look at the loader first.
Threads that the job's own code starts are not counted. Where the code binds the job to fewer cores than it was started
with, that is told instead.
"""

from collections.abc import Iterator

import polars as pl

from stepscope.analyses.host.core_waits import core_waits
from stepscope.analyses.host.lib.model_places import model_places
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.cores import launcher_cores
from stepscope.analyses.operators.operators import operators
from stepscope.core.finding import Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.thread_settings import SETS_THREADS, operator_threads, thread_advice

__all__ = ["RULE"]

MIN_WAIT = 0.10  # of the step: 16 threads on 2 cores waited 36 to 77 %, as many as there are cores below 1 %
WITH_OPERATORS = 1.5  # times the wait of the main thread, at most: 1.1 to 1.4 measured
LEAST = 0.8  # times that wait: the same, with a margin
_PRODUCTS = r"^aten::(addmm|mm|bmm|baddbmm|addbmm|mkldnn_linear|_scaled_dot_product)"
OTHERS = 0.5  # of the wait: with more of it other processes are to blame


def check(run: Run) -> Iterator[Finding]:
    threads, started = dict(operator_threads(run).select("rank", "on_host").iter_rows()), launcher_cores(run) or 0.0
    rows = [
        row for row in core_waits(run).iter_rows(named=True)
        if threads.get(row["rank"], 0) > started and _too_many(row, threads[row["rank"]])
    ]  # fmt: skip
    if not rows:
        return
    worst = max(rows, key=lambda row: row["waited"] / row["step"])
    count, cores = threads[worst["rank"]], max(1, round(worst["cores"]))
    lost = worst["waited"] * _short_operators(run, worst["rank"])
    if lost < MIN_WAIT * worst["step"]:
        return
    yield Finding(
        title=Title(
            f"{{}} operator {plural(count, 'thread')} share {{}} {plural(worst['cores'], 'core')}",
            (Value(count, "count"), Value(worst["cores"], "count")),
        ),
        cause="configuration",
        evidence=_evidence(worst, count),
        gain=Gain(
            low_ns=int(min(LEAST * lost, most := worst["step"] * (1 - worst["cores"] / count))),
            high_ns=int(min(WITH_OPERATORS * lost, most)),
            step_ns=int(worst["step"]),
            basis="core wait of the main thread, and of operator threads",
            confidence="structural",
        ),
        advice=thread_advice(max(1, cores // len(threads))),
        ranks=tuple(row["rank"] for row in rows),
        where=setting_places(run, SETS_THREADS, worst["rank"]) or model_places(run, worst["rank"]),
    )


def _too_many(row: dict[str, float], threads: int) -> bool:
    """Whether the main thread of a rank waits for cores that its own job has too many threads for."""
    waits = row["waited"] >= MIN_WAIT * row["step"]
    return waits and threads > row["cores"] and row["others"] * row["step"] < OTHERS * row["waited"]


def _short_operators(run: Run, rank: int) -> float:
    """The share of the operators' time that is in no matrix product. Raises MissingData without a trace."""
    own = operators(run).filter(pl.col("rank") == rank)
    whole = float(own["host_self"].sum())
    return 1 - float(own.filter(pl.col("name").str.contains(_PRODUCTS))["host_self"].sum()) / whole if whole else 1.0


def _evidence(row: dict[str, float], threads: int) -> tuple[Evidence, ...]:
    waited = row["waited"]
    return (
        Evidence(label="core wait per step", value=waited, unit="ns", source="core_waits", share=waited / row["step"]),
        Evidence(label="operator threads", value=threads, unit="count", source="processes"),
        Evidence(label="cores this job uses", value=row["job"], unit="count", source="core_waits", of=row["cores"]),
    )


def example(synth: Synth, fixed: bool) -> None:
    waited = 0 if fixed else 30
    length = 70 + waited
    synth.add("meta", source="run.json", key="cores", value='{"effective": 2}')
    synth.add("processes", rank=0, host="n0", threads=2 if fixed else 16)
    synth.host("ProfilerStep#0", "annotation", 0, 10).host("aten::convolution", "operator", 1, 9)
    for step in range(10):
        start = step * length
        synth.step(step, start, start + length, forward=25 + waited, backward=40, optimizer=5)
        time = int((start + length / 2) * 1_000_000)
        synth.add("system", time=time, what="core wait", value=waited / length, unit="ratio")
        synth.add("system", time=time, rank=None, what="job CPU", value=1.9, unit="cores")
        synth.add("system", time=time, rank=None, what="other CPU", value=0.02, unit="cores")


RULE = Rule(check=check, example=example)
