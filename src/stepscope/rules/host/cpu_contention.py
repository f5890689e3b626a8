"""Other programs take the cores that training needs.

## What it finds
Ranks whose main thread was ready but had no core for more than 5 % of the steady steps. Meanwhile processes outside the
job used the cores. The figures are the scheduler's own, read once a second from outside.

## Why it costs time
A step waits for its slowest thread. While the main thread waits for a core, nothing is launched. While one operator
thread waits, all the others wait for it at the end of the operator. So other work on half of the cores can make a step
several times longer, not just twice.

## What to do
Stop the other programs, move them to another machine or give each its own cores. In a container or a batch system ask
for as many cores as the job uses. Fix this before you compare runs or trust the other gains here.

## How the gain is predicted
At least the time that the main thread waited, as far as the other programs had cores to free. At most twice that, since
waits of operator threads are not counted. With one to four busy processes beside a training on two cores, training
alone saved 1.2 to 1.7 times the wait of its main thread. Neither end is more than arithmetic allows: the job's own work
on all its cores stays.

## When it is wrong
Programs that training needs (a data server, a database) do not count as others. A job with
more busy threads than cores waits for itself: only what others use is counted, but the two cannot be told apart
exactly.
"""

from collections.abc import Iterator
from math import ceil

from stepscope.analyses.host.core_waits import UNCOUNTED, core_waits
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.05  # of the step: a smaller gain drowns in the noise between two runs
_WITH_OPERATORS = "core wait of the main thread, up to twice that: operator threads wait too"
MIN_OTHERS = 0.2  # cores: an idle desktop, the monitoring and stepscope itself use less


def check(run: Run) -> Iterator[Finding]:
    slow = []
    for row in core_waits(run).iter_rows(named=True):
        lost = min(row["waited"], row["others"] * row["step"], _most(row))
        if row["others"] >= MIN_OTHERS and lost >= MIN_SHARE * row["step"]:
            slow.append((lost, row))
    if not slow:
        return
    lost, worst = max(slow, key=lambda found: found[0])
    most = min(UNCOUNTED * lost, _most(worst))
    yield Finding(
        title=Title(
            f"Other processes use {{}} of {{}} {plural(worst['cores'], 'core')}",
            (Value(worst["others"], "count"), Value(worst["cores"], "count")),
        ),
        cause="scheduling",
        evidence=(
            Evidence(
                label="core wait per step",
                value=worst["waited"],
                unit="ns",
                source="core_waits",
                share=worst["waited"] / worst["step"],
            ),
            _cores("cores others use", worst, "others"),
            _cores("cores this job uses", worst, "job"),
        ),
        gain=Gain(
            low_ns=int(lost),
            high_ns=int(most),
            step_ns=int(worst["step"]),
            basis=_basis(worst, lost, most),
            confidence="structural",
        ),
        advice=(
            Advice(text="Find the other processes, then stop or move them", code="top -o %CPU", language="shell"),
            *_pinning(worst),
        ),
        ranks=tuple(row["rank"] for _, row in slow),
    )


def _basis(row: dict[str, float], lost: float, most: float) -> str:
    if most > row["waited"]:
        return _WITH_OPERATORS
    return "core wait of the main thread" if lost >= int(row["waited"]) else "core wait, as far as others use cores"


def _pinning(row: dict[str, float]) -> Iterator[Advice]:
    """Cores for the job and for the others, where the others leave it most of them."""
    cores, others = round(row["cores"]), ceil(row["others"])
    if 2 * others <= cores:
        code = (
            f"taskset --cpu-list {_span(others, cores - 1)} python train.py\n"
            f"taskset --all-tasks --cpu-list --pid {_span(0, others - 1)} PID  # each other process"
        )
        yield Advice(text="Or give the job and the others cores of their own", code=code, language="shell")


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _cores(label: str, row: dict[str, float], who: str) -> Evidence:
    return Evidence(label=label, value=row[who], unit="count", source="core_waits", of=row["cores"])


def _most(row: dict[str, float]) -> float:
    """What is left of a step when the job's own work is spread over all its cores."""
    return max(0.0, row["step"] * (1 - row["job"] / row["cores"]))


def example(synth: Synth, fixed: bool) -> None:
    waited = 0 if fixed else 30
    length = 70 + waited
    synth.add("meta", source="run.json", key="cores", value='{"effective": 2}')
    for step in range(10):
        start = step * length
        synth.step(step, start, start + length, forward=25 + waited, backward=40, optimizer=5)
        time = (start + length / 2) * 1_000_000
        synth.add("system", time=int(time), what="core wait", value=waited / length, unit="ratio")
        synth.add("system", time=int(time), rank=None, what="job CPU", value=0.7, unit="cores")
        synth.add("system", time=int(time), rank=None, what="other CPU", value=1.3 if waited else 0.0, unit="cores")


RULE = Rule(check=check, example=example)
