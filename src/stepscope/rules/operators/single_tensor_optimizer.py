"""The optimizer updates many small parameters one by one.

## What it finds
An optimizer of torch that loops over 100 parameters or more in Python, neither fused nor foreach. On a CPU this is the
default. An average parameter has at most 16,384 elements, and the optimizer takes more than 10 % of the step.

## Why it costs time
Each parameter costs Python and the dispatcher 6 µs (SGD) to 30 µs (Adam), however small it is. A fused update walks
over all of them in one call.

## What to do
`fused=True` where the class has it (Adam, AdamW, SGD, Adagrad), on a CPU too; else `foreach=True`.

## How the gain is predicted
Measured on a CPU with 300 to 2,500 parameters of 64 to 4,096 elements: fused=True saves 73 to 84 % of the optimizer's
time, foreach=True 22 to 43 %. The range is wider, for machines with slower memory and faster Python.

## When it is wrong
With few large parameters the memory limits, and the loop costs nothing; the rule stays silent then. A fused update
rounds differently in the last bits. Hooks on the optimizer, or a closure that computes the loss, are not sped up.
"""

from collections.abc import Iterator

from stepscope.analyses.operators.lib.looped_optimizer import LoopedOptimizer, looped_optimizers
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

MIN_SHARE = 0.10  # of the step: a fused update saves about half of it at least, so 5 % of the step
FUSED = (0.45, 0.90)  # of the optimizer's time that fused=True saves; measured 0.73 to 0.84
FOREACH = (0.22, 0.44)  # of the optimizer's time that foreach=True saves; measured 0.22 to 0.43


def check(run: Run) -> Iterator[Finding]:
    looped = looped_optimizers(run)
    ranks = set(enough_steps(run)["rank"].to_list()) if looped else set()
    slow = [found for found in looped if found.rank in ranks and found.time >= MIN_SHARE * found.step > 0]
    if slow:
        yield _finding(max(slow, key=lambda found: found.time), tuple(found.rank for found in slow))


def _finding(worst: LoopedOptimizer, ranks: tuple[int, ...]) -> Finding:
    low, high = FUSED if worst.fusable else FOREACH
    option = "fused=True" if worst.fusable else "foreach=True"
    each = worst.time / worst.parameters
    return Finding(
        title=Title(
            "{} updates {} tensors one by one: {} per step",
            (worst.name, Value(worst.parameters, "count"), Value(worst.time, "ns")),
        ),
        cause="configuration",
        evidence=(
            Evidence(
                label="optimizer time per step",
                value=worst.time,
                unit="ns",
                source="steady_steps",
                share=worst.time / worst.step,
            ),
            Evidence(label="parameter tensors", value=worst.parameters, unit="count", source="optimizers"),
            Evidence(label="time per parameter tensor", value=each, unit="ns", source="steady_steps"),
        ),
        gain=Gain(
            low_ns=int(low * worst.time),
            high_ns=int(high * worst.time),
            step_ns=int(worst.step),
            basis=f"benchmarked: {option} on small parameters",
            confidence="benchmarked",
            pool="host",
        ),
        advice=(
            Advice(
                text=f"Set {option}: one call updates all parameters",
                code=f"optimizer = torch.optim.{worst.name}(model.parameters(), ..., {option})",
            ),
        ),
        ranks=ranks,
        where=worst.places,
    )


def example(synth: Synth, fixed: bool) -> None:
    update = 12 if fixed else 52
    synth.add(
        "optimizers", name="Adam", module="torch.optim.adam", groups=1, parameters=2500, elements=160_000,
        foreach=None, fused=True if fixed else None,
    )  # fmt: skip
    length = 48 + update
    for step in range(12):
        start = step * length
        synth.step(step, start, start + length, forward=20, backward=28, optimizer=update)
        for tick in range(update // 4):
            synth.sample(
                step, start + 48 + 4 * tick, 4, "optimizer", "/home/me/train.py", 42, function="main",
                text="optimizer.step()", call="torch/optim/optimizer.py:500 wrapper",
                leaf="torch/optim/adam.py:450 _fused_adam" if fixed else "torch/optim/adam.py:450 _single_tensor_adam",
            )  # fmt: skip


RULE = Rule(check=check, example=example)
