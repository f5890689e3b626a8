"""What the clock saw of a training that the records alone do not tell: steps left out, or recorded in parts."""

from __future__ import annotations

import os

from ..guards import own_errors
from ..recorder import append_line
from .training_thread import OFF

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .clock import StepClock

__all__ = ["STEPLESS", "leave_stepless", "left_out", "outer_loop"]

STEPLESS = "stepless.jsonl"
"""File of the run folder: what processes did that ended without a step."""


def outer_loop(before: tuple[int, int], step: int) -> dict[str, Any]:
    """The fact about an outer loop that was not known before `step`: which records are one step together."""
    return {"kind": "outer_loop", "steps": [before, (before[1] + 1, step)]}


def left_out(clock: StepClock) -> list[tuple[str, str]]:
    """At the end of the job: optimizer steps in no record, (what, why)."""
    found = []
    if clock.turns.is_outer and clock.spent[0] == clock.state.step and clock.inner_steps:
        why = "the optimizer around them, which ends the steps, made no step any more"
        found.append((f"the last {clock.inner_steps} optimizer steps", why))
    if clock.elsewhere:
        found.append((f"{clock.elsewhere} optimizer steps", "other threads than the training thread made them"))
    return found


def leave_stepless(run_dir: str, clock: StepClock) -> None:
    """Write down what a process did that ends without a step, if it is anything that a training does. Never raises."""
    row = {
        "pid": os.getpid(),
        "loaders": len(clock.touched),
        "backwards": clock.micro + len(clock.early),
        "optimizer_steps": clock.turns.bare_steps,
        "has_optimizer": clock.has_optimizer,
    }
    if clock.thread == OFF or clock.state.step or not (row["loaders"] or row["backwards"] or row["optimizer_steps"]):
        return
    try:
        append_line(os.path.join(run_dir, STEPLESS), row)
    except own_errors():
        return
