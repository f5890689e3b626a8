"""A Python thread beside training holds the interpreter's lock.

## What it finds
CPU jobs of one process. Another Python thread computes for a fifth of the time or more. The training thread neither
runs nor is ready for 5 % of the step or more; waits for loader workers do not count.

## Why it costs time
Only the thread that has the interpreter's lock (the GIL) runs Python. Another one asks for it, and gets it after 5 ms.
Training needs it between all operators: a step of a hundred operators may wait as many times.

## What to do
Move the work to another process, which has an interpreter of its own. Or do it by calls that release the lock while
they compute: operators of torch, numpy on large arrays. Or do it less often.

## How the gain is predicted
Low end: the time in which the training thread did not run though it had nothing to wait for. High end: also the time in
which it was ready without a core. On two cores a fix saved 14.0 ms of a 25.5 ms step; predicted
were 7.0 to 14.0 ms.

## When it is wrong
A training thread that sleeps for another reason, such as a full queue or a lock of the job's own, looks the same. Jobs
of several processes and jobs on a GPU are left out: their threads wait for each other and for the device.
"""

from collections.abc import Iterator

from stepscope.analyses.host.lib.gil_waits import GilWait, gil_waits
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]


def check(run: Run) -> Iterator[Finding]:
    for wait in gil_waits(run):
        yield _finding(wait)


def _finding(wait: GilWait) -> Finding:
    function = wait.place.symbol.split(".")[-1] if wait.place and wait.place.symbol.isidentifier() else "work"
    return Finding(
        title=Title(
            "{} holds the GIL: training waits {} per step ({})",
            (wait.thread, Value(wait.idle, "ns"), Value(wait.idle / wait.step, "ratio")),
        ),
        cause="scheduling",
        evidence=(
            Evidence(
                label="idle time per step", value=wait.idle, unit="ns", source="thread_times",
                share=wait.idle / wait.step,
            ),
            Evidence(label="thread CPU use", value=wait.busy, unit="ratio", source="thread_times"),
            Evidence(
                label="core wait per step", value=wait.ready, unit="ns", source="thread_times",
                share=wait.ready / wait.step,
            ),
        ),
        gain=Gain(
            low_ns=int(wait.idle),
            high_ns=int(min(wait.idle + wait.ready, wait.step)),
            step_ns=int(wait.step),
            basis="idle time of the training thread, and its core wait",
            confidence="structural",
            pool="host",
        ),
        advice=(
            Advice(
                text="Run it in another process, which has an interpreter of its own",
                code=f"torch.multiprocessing.Process(target={function}, args=(...)).start()  # and its Queue",
            ),
            Advice(text="Or replace its loop by operators on tensors, which release the lock"),
        ),
        ranks=(wait.rank,),
        where=(wait.place,) if wait.place else (),
        replaces=("input-bound", "few-workers", "slow-transform", "host-bound", "cpu-contention"),
    )  # fmt: skip


def example(synth: Synth, fixed: bool) -> None:
    second, length = 1_000_000_000, 100 if fixed else 200
    synth.add("processes", rank=0, host="n0", threads=1, probe="compiled")
    for step in range(6000 // length):
        start = length * step
        synth.sample(step, start, 20, "backward", "/home/me/train.py", 40, call="torch/_tensor.py:600 backward")
        synth.step(step, start, start + length, forward=length // 2, backward=length // 2, optimizer=0)
    for at in range(1, 7):
        rows = (("MainThread", True, 0.98 if fixed else 0.5), ("Thread-1 (count)", False, 0.05 if fixed else 0.5))
        for thread, training, busy in rows:
            line = {} if training else {"file": "/home/me/train.py", "line": 24, "function": "count"}
            synth.add(
                "thread_times", rank=0, thread=thread, training=training, time=at * second, span=second,
                cpu=int(busy * second), ready=0, text=None if training else "levels[value] += 1", **line,
            )  # fmt: skip


RULE = Rule(check=check, example=example)
