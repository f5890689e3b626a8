"""The job may use only some of the machine's cores, and uses them all.

## What it finds
Jobs that use 90 % or more of the cores that they may use, while the machine has more that nobody uses. The limit is the
affinity of the process (`taskset`, `numactl`, a batch system, a call in the code) or the CPU quota of its container.
Loading or computing on the CPU must limit the step.

## Why it costs time
Loader workers and operator threads share these cores and wait for each other. No setting of the loader helps: more
workers share the same cores.

## What to do
Give the job more cores: take out the call or the `taskset` that binds it, or ask the batch system or the container for
more (`--cpus-per-task`, `--cpus`, `resources.limits.cpu`).

## How the gain is predicted
The part of the step that needs cores, divided among all free cores of the machine: 0.55 to 1.1 times what that saves.
The part is the data wait, and with a model on the CPU operators of 100 µs and more. Work is not divided evenly, but
other threads get out of the way. Measured with convolutions on one of two cores: 0.87 to 1.03 times.

## When it is wrong
The other cores may belong to somebody else, who does not use them now. Some of them may be slower, or the second half
of a core that works already. More is saved where torch counted the cores before the job was bound to fewer: its threads
then spin while they wait for each other; a step became 94 % shorter.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.host.core_waits import core_waits
from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.cores import machine_cores
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.thread_settings import long_operators, thread_example

__all__ = ["RULE"]

FULL = 0.9  # of the cores that the job may use: what is left does not feed another worker
FREE = 0.9  # cores that nobody uses: an idle machine uses some hundredths
MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
LEAST, MOST = 0.55, 1.1  # of the gain: see above
BINDS = r"sched_setaffinity\(|cpu_affinity\(\["


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """Times in ns of a step; cores as counts."""

    rank: int
    step: float
    needs: float  # of the step: waits for data, and operators that cores could share
    job: float
    allowed: float
    machine: float
    free: float

    @property
    def saved(self) -> float:
        return self.needs * self.free / (self.allowed + self.free)


def check(run: Run) -> Iterator[Finding]:
    found = [row for row in _bound(run) if row.saved >= MIN_SHARE * row.step]
    if not found:
        return
    worst = max(found, key=lambda row: row.saved / row.step)
    yield Finding(
        title=Title(
            f"This job may use only {{}} of {{}} {plural(worst.machine, 'core')}",
            (Value(worst.allowed, "count"), Value(worst.machine, "count")),
        ),
        cause="configuration",
        evidence=(
            Evidence(label="cores this job uses", value=worst.job, unit="count", source="core_waits", of=worst.allowed),
            Evidence(label="machine cores", value=worst.machine, unit="count", source="core_waits"),
            Evidence(
                label="loading and computing", value=worst.needs, unit="ns", source="bound",
                share=worst.needs / worst.step,
            ),
        ),
        gain=Gain(
            low_ns=int(LEAST * worst.saved),
            high_ns=int(min(MOST * worst.saved, worst.step)),
            step_ns=int(worst.step),
            basis="loading and long operators on all free cores",
            confidence="structural",
        ),
        advice=_ADVICE,
        ranks=tuple(row.rank for row in found),
        where=setting_places(run, BINDS, worst.rank),
    )  # fmt: skip


_ADVICE = (
    Advice(
        text="Take out what binds the job to these cores, or ask the batch system or container for more",
        code="taskset --cpu-list --pid PID  # shows the cores that a process may use",
        language="shell",
    ),
)


def _bound(run: Run) -> Iterator[_Bound]:
    """The ranks of a job that uses all cores that it may, where the machine has free ones."""
    machine = machine_cores(run)
    if machine is None:
        raise MissingData("machine cores", how="run it with `stepscope run -- COMMAND`")
    rows = core_waits(run).join(bound(run).select("rank", "limit", "input", "device"), on="rank")
    for row in rows.sort("rank").iter_rows(named=True):
        free = min(machine - row["cores"], machine - row["job"] - row["others"])
        if row["job"] < FULL * row["cores"] or free < FREE or row["limit"] not in ("input", "device", "balanced"):
            continue
        yield _Bound(
            rank=row["rank"], step=row["step"], needs=_needs(run, row), job=row["job"], allowed=row["cores"],
            machine=machine, free=free,
        )  # fmt: skip


def _needs(run: Run, row: dict[str, float]) -> float:
    """ns of a step that more cores make shorter."""
    computes = 0.0 if has_gpu(run) else (row["device"] or 0.0) * long_operators(run, int(row["rank"]))
    return min(1.0, (row["input"] or 0.0) + computes) * row["step"]


def example(synth: Synth, fixed: bool) -> None:
    """One of two cores for a step of long operators; the fix halves most of it."""
    cores, computing = (2, 60) if fixed else (1, 100)
    thread_example(synth, threads=cores, computing=computing, affinity=cores)


RULE = Rule(check=check, example=example)
