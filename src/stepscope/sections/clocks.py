"""Which clock each figure is from, what watching and tracing cost, and what became of each traced window."""

from collections.abc import Callable

import polars as pl

from stepscope.analyses.steps import steps
from stepscope.analyses.tracing_cost import tracing_cost
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.sections import RANKS_SHOWN, Columns, has_device_work, is_traced, many, ranked

__all__ = ["SECTION"]

_CLOCKS = {
    "host": "timed by the host's clock, each until the optimizer's step returns.",
    "host-backward": "timed by the host's clock as backward returns, because no optimizer was seen.",
    "kineto": "timed by the profiler's clock in the trace; tracing makes steps longer.",
}


def build(run: Run) -> list[Block]:
    blocks: list[Block] = []
    makers: tuple[Callable[[Run], list[Block]], ...] = (_step_clocks, _other_clocks, _tracing, _windows)
    for maker in makers:
        try:
            blocks += maker(run)
        except MissingData:
            continue  # this section is about what was recorded; other sections say what was not
    return blocks


def _step_clocks(run: Run) -> list[Block]:
    table = steps(run)
    counts = table.group_by("clock", maintain_order=True).len().iter_rows()
    blocks: list[Block] = [
        Text(
            f"{many(count, 'step is', 'steps are')} {_CLOCKS.get(clock, 'timed by a clock the source does not name.')}",
            (Value(count, "count"),),
        )
        for clock, count in counts
    ]
    if has_device_work(run) and not table["clock"].is_in(["kineto"]).all():
        text = "Nothing waits for the device: what it still has to do when a step returns counts to the next one."
        blocks.append(Text(text))
    return blocks


def _other_clocks(run: Run) -> list[Block]:
    blocks: list[Block] = []
    on_device = run.optional("steps")["device_duration"].drop_nulls()
    if on_device.len():
        median = Value(int(on_device.median()), "ns")  # type: ignore[arg-type]
        text = "On the device a step takes {} (median of {}), from CUDA events at the step ends, without synchronising."
        blocks.append(Text(text, (median, Value(on_device.len(), "count"))))
    if is_traced(run):
        text = (
            "Operators, kernels and device times are from the profiler's clock, in traced steps only, which are longer."
        )
        blocks.append(Text(text))
    samples = run.rows("stacks")
    if samples:
        text = f"Lines of code are from {many(samples, 'sample')} of the running job; a share of few samples is rough."
        blocks.append(Text(text, (Value(samples, "count"),)))
    return blocks + _own_cost(run)


def _own_cost(run: Run) -> list[Block]:
    processes = run.optional("processes")
    cost = processes["probe_cost"].max()
    if cost is None:
        return []
    text = "The step clock takes at least {} for each step; between real work, with cold caches, several times that."
    if processes["probe"].eq("python").any():
        text += " Its compiled hooks could not be loaded here, so it is Python's: see `stepscope doctor`."
    return [Text(text, (Value(cost, "ns"),))]  # type: ignore[arg-type]


def _tracing(run: Run) -> list[Block]:
    table = tracing_cost(run).filter(pl.col("untraced_step").is_not_null() & pl.col("traced_step").is_not_null())
    rows = tuple(table.select("rank", "untraced_step", "traced_step", "start_stop").head(RANKS_SHOWN).iter_rows())
    columns: Columns = (
        ("rank", None),
        ("median step, untraced", "ns"),
        ("median step, traced", "ns"),
        ("start, stop and write", "ns"),
    )
    return [ranked("What tracing cost", columns, rows)] if rows else []


def _windows(run: Run) -> list[Block]:
    table = run.optional("windows").select("rank", "window", "status", "first_step", "last_step", "reason", "cost")
    if table.is_empty():
        return []
    columns: Columns = (
        ("rank", None), ("window", None), ("status", None), ("first step", None), ("last step", None),
        ("reason", None), ("cost", "ns"),
    )  # fmt: skip
    return [ranked("Traced windows", columns, tuple(table.head(RANKS_SHOWN).iter_rows()))]


SECTION = Section(title="Clocks and costs", order=110, build=build)
