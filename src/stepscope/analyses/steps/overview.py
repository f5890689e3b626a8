"""The workload at a glance: framework, ranks, devices, batch, and what was recorded.

One row is a fact. `what` names it; `text` or `value` (in `unit`) says it, and `source` which table of the run tells it:
`stepscope show SOURCE` for an analysis, the data dictionary for a core table. Facts that the run does not tell have no
row. Where ranks differ there is a row for each value. The idea is the configuration pane of the TensorBoard plugin's
overview, with the number of ranks for what it calls workers.
"""

import json
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.devices_used import devices_used
from stepscope.analyses.lib.result_tables import RECORD_STEPS, table
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    Column("what", pl.String, None, "framework, ranks, devices, batch size, step, recorded, …"),
    Column("text", pl.String, None, "the fact, where it is no number"),
    Column("value", pl.Float64, None, "the fact as a number, in `unit`"),
    Column("unit", pl.String, None, "unit of the value: count, ns or bytes"),
    Column("source", pl.String, None, "table that tells it"),
)
Fact = tuple[str, str | None, float | None, str | None, str]
_PROCESS = {
    "framework": "framework", "python": "Python", "backend": "communication backend", "host": "host",
    "matmul_precision": "float32 matmul precision",
}  # fmt: skip
_HEADER = {
    "cuda_runtime_version": "CUDA runtime", "cuda_driver_version": "CUDA driver", "hip_runtime_version": "HIP runtime",
    "hip_driver_version": "HIP driver", "nccl_version": "NCCL",
}  # fmt: skip
# Options that the profiler writes when they are on and leaves out when they are off. Old ones write none of them.
_OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
_LOADER = {
    "batch_size": "batch size", "num_workers": "loader workers", "prefetch_factor": "batches prefetched per worker",
}  # fmt: skip


def compute(run: Run) -> pl.DataFrame:
    """Rows in a fixed order. Raises MissingData for a run that tells nothing."""
    facts = [*_ranks(run), *_devices(run), *_training(run), *_steps(run), *_recording(run)]
    if not facts:
        raise MissingData("description of the job", how=RECORD_STEPS)
    return table(facts, COLUMNS)


def _ranks(run: Run) -> Iterator[Fact]:
    processes = run.optional("processes")
    for name, what in _PROCESS.items():
        yield from _texts(what, processes[name], "processes")
    if processes.height:
        yield from _number("ranks opened", processes["rank"].n_unique(), "count", "processes")
    yield from _number("ranks of the job", processes["world_size"].max(), "count", "processes")
    yield from _number("threads of operators", processes["threads"].max(), "count", "processes")
    told = dict(_header(run))
    for key, what in _HEADER.items():
        yield from _texts(what, pl.Series([_version(key, told.get(key))], dtype=pl.String), "meta")


def _devices(run: Run) -> Iterator[Fact]:
    for name, memory, capability, listed, used in devices_used(run).iter_rows():
        what = name or "name not recorded"
        yield f"devices: {what}", None, float(listed), "count", "devices"
        if used is not None:
            yield f"of these used: {what}", None, float(used), "count", "device"
        yield from _number(f"memory of each: {what}", memory, "bytes", "devices")
        if capability:
            yield f"compute capability: {what}", capability, None, None, "devices"


def _training(run: Run) -> Iterator[Fact]:
    loaders = run.optional("loaders").filter(pl.col("train").fill_null(False))
    for name, what in _LOADER.items():
        for value in loaders[name].drop_nulls().unique().sort():
            yield what, None, float(value), "count", "loaders"
    yield from _texts("data set", loaders["dataset"], "loaders")
    optimizers = run.optional("optimizers")
    yield from _texts("optimizer", optimizers["name"], "optimizers")
    of_a_rank = optimizers.group_by("rank").agg(pl.col("elements").sum())["elements"].max()
    yield from _number("parameters of each rank", of_a_rank, "count", "optimizers")


def _steps(run: Run) -> Iterator[Fact]:
    try:
        steps = steady_steps(run)
    except MissingData:
        return
    yield from _number("steps that means are over", steps["weight"].sum(), "count", "steady_steps")
    yield from _number("mean step", steps["duration"].mean(), "ns", "steady_steps")
    yield from _number("mean samples of a step and rank", steps["samples"].mean(), "count", "steady_steps")
    yield from _number("mean backward calls of a step", steps["micro_batches"].mean(), "count", "steady_steps")


def _recording(run: Run) -> Iterator[Fact]:
    for name in ("steps", "host", "device", "memory", "stacks"):
        rows = run.rows(name)
        if rows:
            yield f"rows recorded: {name}", None, float(rows), "count", name
    told = dict(_header(run))
    if any(option in told for option in _OPTIONS):
        for option in _OPTIONS:
            yield f"profiler option {option}", "on" if told.get(option) in ("1", "true") else "off", None, None, "meta"


def _header(run: Run) -> Iterator[tuple[str, str]]:
    """Entries of the headers of traces; of several ranks the last. NCCL's version stands in the distributed part."""
    for key, value in run.optional("meta").select("key", "value").iter_rows():
        if key == "distributedInfo":
            yield from _nccl(value)
        elif key in _HEADER or key in _OPTIONS:
            yield key, value or ""


def _version(key: str, told: str | None) -> str | None:
    """A version that is written as one number, 12040 by CUDA and 60443483 by HIP, as people write it."""
    if told is None or not told.isascii() or not told.isdigit():
        return told
    number = int(told)
    if key.startswith("cuda"):
        return f"{number // 1000}.{number % 1000 // 10}"
    return f"{number // 10**7}.{number // 10**5 % 100}.{number % 10**5}"


def _nccl(text: str) -> Iterator[tuple[str, str]]:
    try:
        header = json.loads(text)
    except ValueError:  # a header can hold anything
        return
    if isinstance(header, dict) and isinstance(header.get("nccl_version"), str):
        yield "nccl_version", header["nccl_version"]


def _texts(what: str, values: pl.Series, source: str) -> Iterator[Fact]:
    for value in values.drop_nulls().unique().sort():
        yield what, str(value), None, None, source


def _number(what: str, value: object, unit: str, source: str) -> Iterator[Fact]:
    if isinstance(value, int | float):
        yield what, None, float(value), unit, source


ANALYSIS = overview = Analysis(compute=compute, columns=COLUMNS)
