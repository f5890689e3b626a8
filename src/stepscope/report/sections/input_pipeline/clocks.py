"""Which clock each figure is from, what watching and tracing cost, and what became of each traced window."""

from collections.abc import Callable

import polars as pl

from stepscope.analyses.input_pipeline.loader_clock import loader_clock
from stepscope.analyses.steps.steps import steps
from stepscope.analyses.steps.tracing_cost import tracing_cost
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import RANKS_SHOWN, Columns, excerpt, has_device_work, is_traced, many, ranked

__all__ = ["SECTION"]

_CLOCKS = {
    "host": "timed on the host clock. A step ends when optimizer.step() returns.",
    "host-backward": "timed on the host clock. A step ends when backward returns, as no optimizer was seen.",
    "kineto": "timed on the profiler's clock.",
}


def build(run: Run) -> list[Block]:
    blocks: list[Block] = []
    makers: tuple[Callable[[Run], list[Block]], ...] = (_step_clocks, _other_clocks, _loading, _tracing, _windows)
    for maker in makers:
        try:
            blocks += maker(run)
        except MissingData:
            continue  # this section is about what was recorded; other sections say what was not
    return blocks


def _step_clocks(run: Run) -> list[Block]:
    table = steps(run)
    counts = table.group_by("clock", maintain_order=True).agg(pl.col("weight").sum()).iter_rows()
    blocks: list[Block] = [
        Text(
            f"{many(count, 'step is', 'steps are')} {_CLOCKS.get(clock, 'timed on an unknown clock.')}",
            (Value(count, "count"),),
        )
        for clock, count in counts
    ]
    if has_device_work(run) and not table["clock"].is_in(["kineto"]).all():
        text = "The step clock does not synchronize the device. Device work still queued counts to the next step."
        blocks.append(Text(text))
    return blocks


def _other_clocks(run: Run) -> list[Block]:
    blocks: list[Block] = []
    on_device = run.optional("steps")["device_duration"].drop_nulls()
    if on_device.len():
        median = Value(int(on_device.median()), "ns")  # type: ignore[arg-type]
        text = f"The median step on the device is {{}} ({many(on_device.len(), 'step')}, timed with CUDA events)."
        blocks.append(Text(text, (median, Value(on_device.len(), "count"))))
    if is_traced(run):
        text = (
            "Operators, kernels and device times are from the trace only, on the profiler's clock. Tracing makes steps "
            "longer."
        )
        blocks.append(Text(text))
    samples = run.rows("stacks")
    if samples:
        text = f"Lines of code are from {many(samples, 'sample')}. Shares of few samples are rough."
        blocks.append(Text(text, (Value(samples, "count"),)))
    return blocks + _own_cost(run)


def _own_cost(run: Run) -> list[Block]:
    processes = run.optional("processes")
    cost = processes["probe_cost"].max()
    if cost is None:
        return []
    text = "The step clock takes at least {} in each step, and several times that with cold CPU caches."
    if processes["probe"].eq("python").any():
        text += " It runs in Python, as its compiled hooks did not load: see `stepscope doctor`."
    return [Text(text, (Value(cost, "ns"),))]  # type: ignore[arg-type]


def _loading(run: Run) -> list[Block]:
    """Whether spans of the input pipeline fit each other and the traces."""
    table = loader_clock(run)
    checked, wrong = (Value(int(table[name].sum()), "count") for name in ("checked", "violations"))
    if wrong.value:
        text = (
            "Data-loading times that contradict each other: {} of {}; an effect comes before its cause. Do not compare "
            "times of these clocks."
        )
        rows = table.filter(pl.col("violations") > 0)
        return [
            Text(text, (wrong, checked)),
            *excerpt("", loader_clock, rows, _FIT, limit=RANKS_SHOWN, name="loader_clock"),
        ]
    blocks: list[Block] = [Text("All {} checked data-loading times are consistent.", (checked,))]
    traces = table.filter(pl.col("loader").is_null())
    if traces.height:
        off = Value(int(traces.select(pl.max_horizontal(-pl.col("low"), "high").max()).item()), "ns")
        blocks.append(Text("Data-loading times and trace differ by at most {}.", (off,)))
    return blocks


_FIT = {
    "rank": "rank", "clock": "clock", "checked": "checked", "violations": "contradict", "low": "to add: at least",
    "high": "at most", "offset": "offset", "error": "±",
}  # fmt: skip


def _tracing(run: Run) -> list[Block]:
    table = tracing_cost(run).filter(pl.col("untraced_step").is_not_null() & pl.col("traced_step").is_not_null())
    rows = tuple(table.select("rank", "untraced_step", "traced_step", "start_stop").head(RANKS_SHOWN).iter_rows())
    columns: Columns = (
        ("rank", None),
        ("median step, untraced", "ns"),
        ("median step, traced", "ns"),
        ("start, stop, write", "ns"),
    )
    return [ranked("Tracing cost", columns, rows)] if rows else []


def _windows(run: Run) -> list[Block]:
    table = run.optional("windows").select("rank", "window", "status", "first_step", "last_step", "reason", "cost")
    if table.is_empty():
        return []
    columns: Columns = (
        ("rank", None), ("window", None), ("status", None), ("first step", None), ("last step", None),
        ("reason", None), ("cost", "ns"),
    )  # fmt: skip
    return [ranked("Traced windows", columns, tuple(table.head(RANKS_SHOWN).iter_rows()))]


SECTION = Section(title="Clocks and costs", order=110, group="quality", build=build)
