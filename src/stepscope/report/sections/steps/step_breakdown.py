"""The mean traced step, each moment charged to one of eight kinds of work: what runs on the device comes first."""

from dataclasses import replace

import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.lib.empty_steps import not_empty
from stepscope.analyses.steps.steady_steps import marks_steps
from stepscope.analyses.steps.step_breakdown import step_breakdown
from stepscope.core.errors import MissingData
from stepscope.core.report import Bar, Bars, Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import many

__all__ = ["SECTION"]

_KINDS = {
    "kernel": "kernels",
    "memcpy": "copies",
    "memset": "memsets",
    "communication": "communication",
    "runtime": "runtime calls",
    "dataloader": "data wait",
    "cpu_exec": "CPU work",
    "other": "other",
}

_AS_KERNELS = (
    "Here, as in TensorBoard, collectives on a device count as kernels unless the trace links them to a call. "
    "For exposed communication see Devices and host load."
)
_OF_A_DEVICE = (
    "Traced steps only. As in TensorBoard, host time counts only while the device is idle, so shares can differ from "
    "the verdict."
)
_NO_STEPS = "From the first to the last event: no steps are marked."


def build(run: Run) -> list[Block]:
    table = step_breakdown(run).filter(not_empty(run))
    means = table.select(pl.col(list(_KINDS)).mean()).row(0, named=True)
    parts = tuple(Bar(label, means[kind]) for kind, label in _KINDS.items() if means[kind])
    bars = Bars("One traced step, mean", "ns", parts)
    if not marks_steps(run):
        return [replace(bars, title="Whole recording"), Text(_NO_STEPS), *_collectives(run)]
    return [
        bars,
        Text("One traced step.") if table.height == 1 else _mean_of(table),
        *([Text(_OF_A_DEVICE)] if has_gpu(run) else []),
        *_collectives(run),
    ]


def _mean_of(table: pl.DataFrame) -> Text:
    """How many steps the bar is the mean of, and of how many ranks where there are several."""
    ranks = table["rank"].n_unique()
    text, values = f"Mean of {many(table.height, 'traced step')}", [Value(table.height, "count")]
    if ranks > 1:
        text, values = f"{text} of {many(ranks, 'rank')}", [*values, Value(ranks, "count")]
    return Text(f"{text}.", tuple(values))


def _collectives(run: Run) -> list[Block]:
    """Where devices communicate, the bar and the verdict count it differently."""
    try:
        communicates = bool(device_time(run)["communication_busy"].sum())
    except MissingData:
        return []
    return [Text(_AS_KERNELS)] if communicates else []


SECTION = Section(title="Step breakdown", order=60, build=build)
