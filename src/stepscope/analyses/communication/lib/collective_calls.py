"""Each rank's own collectives, not yet matched: communication kernels, and gloo's annotations where the host transfers.

What a collective is, is taken from the arguments of its kernel, else from torch's annotation `nccl:…` or the operator
of communication around its launch, else from the kernel's name. Its step is the ProfilerStep that was the last to start
before the launch.
"""

import json
from collections.abc import Callable
from math import prod

import polars as pl

from stepscope.analyses.communication.lib.collective_names import collective_kind, kernel_kind
from stepscope.analyses.communication.lib.group_config import group_config
from stepscope.analyses.lib.communication_calls import communicating_launches
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.host_events import CALLS, OPERATIONS
from stepscope.analyses.lib.host_rows import host_rows, host_where
from stepscope.analyses.lib.markers import step_markers
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, chain, stack
from stepscope.core.schema import DataType

__all__ = ["collective_calls", "launches_collectives", "rank_calls"]

_KERNEL = (
    "rank", "pid", "device", "stream", "name", "kind", "start", "end", "correlation", "collective",
    "collective_sequence", "group", "group_ranks", "group_size", "group_description", "source_rank", "destination_rank",
    "dtype", "in_elements", "out_elements",
)  # fmt: skip
_ANNOTATION = ("rank", "pid", "thread", "name", "start", "end", "input_dims", "input_types")
_ON_HOST = "gloo:"  # the annotation lasts as long as the transfer; of others, as long as the launch
_BACKENDS = r"^(?:gloo|nccl|rccl|xccl|hccl|mccl|ucc):"  # of torch's process groups
_PAIR = 2  # ranks 0 and 1
_LARGEST = 2**63 - 1
_THREAD = ["rank", "pid", "thread"]
_LAUNCH = ["rank", "pid", "correlation"]
_LANE = ["group", "group_ranks", "only_stream", "sender", "receiver"]
_CALL: dict[str, DataType] = {
    "rank": pl.Int32, "device": pl.Int32, "stream": pl.String, "group": pl.String, "group_ranks": pl.String,
    "group_size": pl.Int64, "group_description": pl.String, "sender": pl.Int64, "receiver": pl.Int64,
    "sequence": pl.Int64, "step": pl.Int64, "collective": pl.String, "dtype": pl.String,
    "in_elements": pl.Int64, "out_elements": pl.Int64, "start": pl.Int64, "end": pl.Int64,
}  # fmt: skip


def collective_calls(run: Run) -> pl.DataFrame:
    """Collectives of all ranks: group, sequence, lane, step, collective, dtype, elements, start, end; perhaps none.

    A lane is what runs one after another on a rank: a process group, or a stream where the group is not known; of sends
    and receives whose other end the trace tells, what goes from one rank to another.
    """
    return run.once(_with_lanes)


def launches_collectives(run: Run) -> bool:
    """True if the host calls collectives, whether or not the trace holds what they do on a device."""
    return bool(run.per_rank(_launching_ranks, chain))


def rank_calls(run: Run) -> pl.DataFrame:
    """As `collective_calls`, without the lane, which is the same on all ranks; each rank by itself."""
    return run.per_rank(_rank_calls, stack)


def _launching_ranks(run: Run) -> tuple[int, ...]:
    return tuple(_annotations(run)["rank"].unique().sort())


def _with_lanes(run: Run) -> pl.DataFrame:
    calls = rank_calls(run)
    # A stream stands in for the group only where the group is not known.
    calls = calls.with_columns(only_stream=pl.when(pl.col("group").is_null()).then("stream"))
    lanes = calls.select(_LANE).unique().sort(_LANE).with_row_index("lane").with_columns(pl.col("lane").cast(pl.Int64))
    calls = calls.join(lanes, on=_LANE, how="left", nulls_equal=True).drop("only_stream")
    return calls.sort("rank", "start", "end", "lane")


def _with_groups(calls: pl.DataFrame, config: pl.DataFrame) -> pl.DataFrame:
    """Fill in what the header of the trace tells: the group itself where there is one only, its size and members."""
    only = config.filter(pl.len().over("rank") == 1).select("rank", only_group="group")
    calls = calls.join(only, on="rank", how="left").with_columns(group=pl.coalesce("group", "only_group"))
    calls = calls.join(config, on=["rank", "group"], how="left")
    return calls.with_columns(
        group_size=pl.coalesce("group_size", "size"), group_ranks=pl.coalesce("group_ranks", "members")
    ).drop("only_group", "size", "members", "description")


def _rank_calls(run: Run) -> pl.DataFrame:
    told, kernels = _annotations(run), _kernels(run)
    if told.is_empty() and kernels.is_empty():
        return pl.DataFrame(schema=_CALL)
    calls = pl.concat((_of_devices(run, kernels, told), _of_hosts(told)), how="diagonal_relaxed")
    calls = _with_only_peer(calls, run.optional("processes", "rank", "world_size"))
    return _with_groups(_with_steps(calls, run), group_config(run)).select(
        pl.col(name).cast(kind) for name, kind in _CALL.items()
    )


def _kernels(run: Run) -> pl.DataFrame:
    try:
        has_any = (device_work(run)["role"] == "communication").any()
    except MissingData:
        has_any = False
    if not has_any:
        return run.optional("device", *_KERNEL).clear()
    work = device_work(run, *_KERNEL)
    return work.filter(pl.col("role") == "communication").drop("role")


def _of_devices(run: Run, kernels: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Kernels with the time of their launch, and where arguments are missing, what the annotation around it tells."""
    calls = kernels.join(_launches(run, kernels, told), on=_LAUNCH, how="left", maintain_order="left")
    if kernels.is_empty():
        calls = calls.with_columns(operator=pl.lit(None, pl.String))
    else:
        calls = calls.join(communicating_launches(run), on=_LAUNCH, how="left", maintain_order="left")
    said = [_kinds(calls[name], collective_kind) for name in ("collective", "told", "operator")]
    calls = calls.with_columns(called=pl.coalesce(*said, _kinds(calls["name"], kernel_kind)))
    return calls.select(
        "rank", "device", "stream", "group", "group_ranks", "group_size", "group_description", "out_elements",
        "start", "end", "launch",
        **_ends(),
        collective="called",
        dtype=pl.coalesce("dtype", "told_dtype").str.to_lowercase(),
        in_elements=pl.coalesce("in_elements", "told_elements"),
    )  # fmt: skip


def _ends() -> dict[str, pl.Expr]:
    """Who sends and who receives, where the trace tells the other end of a send or receive, and the sequence number.

    Such a pair has no number: torch counts a rank's sends and receives with all others of its group together.
    """
    called = pl.col("called")
    ends = {
        "sender": pl.when(called == "send").then("rank").when(called == "recv").then("source_rank"),
        "receiver": pl.when(called == "recv").then("rank").when(called == "send").then("destination_rank"),
    }
    paired = ends["sender"].is_not_null() & ends["receiver"].is_not_null()
    known = {name: pl.when(paired).then(rank) for name, rank in ends.items()}
    return {**known, "sequence": pl.when(~paired).then("collective_sequence")}


def _with_only_peer(calls: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """In a job of two ranks a send without a number, as gloo's annotations are, goes to the other one."""
    of_two = processes.filter(pl.col("world_size") == _PAIR)["rank"].implode()
    alone = pl.col("rank").is_in(of_two) & pl.col("sequence").is_null() & pl.col("sender").is_null()
    own, other = pl.col("rank"), _PAIR - 1 - pl.col("rank")
    sends, receives = alone & (pl.col("collective") == "send"), alone & (pl.col("collective") == "recv")
    return calls.with_columns(
        sender=pl.when(sends).then(own).when(receives).then(other).otherwise("sender"),
        receiver=pl.when(sends).then(other).when(receives).then(own).otherwise("receiver"),
    )


def _launches(run: Run, kernels: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """For each launch of a kernel its time, and the annotation of torch that holds it in time on its thread."""
    is_launch = pl.col("kind").is_in(CALLS) & (pl.col("correlation") != 0) & pl.lit(not kernels.is_empty())
    calls = run.where("host", is_launch, *_THREAD, "correlation", "start")
    calls = calls.join(kernels.select(_LAUNCH).unique(), on=_LAUNCH, how="semi").sort("start")
    calls = calls.unique(_LAUNCH, keep="first", maintain_order=True).select(*_THREAD, "correlation", launch="start")
    told = told.filter(~pl.col("name").str.starts_with(_ON_HOST)).select(
        *_THREAD, "end", since="start", told="name", told_dtype="dtype", told_elements="in_elements"
    )
    found = calls.join_asof(
        told, left_on="launch", right_on="since", by=_THREAD, strategy="backward", check_sortedness=False
    )
    inside = pl.col("launch") < pl.col("end")
    return found.select(
        *_LAUNCH,
        "launch",
        *(pl.when(inside).then(name).alias(name) for name in ("told", "told_dtype", "told_elements")),
    )


def _of_hosts(told: pl.DataFrame) -> pl.DataFrame:
    """Collectives of gloo, which run on threads of the host: the annotation lasts as long as the transfer."""
    found = told.filter(pl.col("name").str.starts_with(_ON_HOST))
    outer = pl.col("end").cum_max().shift(1).over(*_THREAD, "name")
    found = found.sort("start", -pl.col("end")).filter(
        (pl.col("end") > outer).fill_null(True)
    )  # not one inside its like
    kind = _kinds(found["name"], collective_kind).alias("collective")
    return found.select("rank", "dtype", "in_elements", "start", "end", kind, launch="start", stream=pl.lit("gloo"))


def _annotations(run: Run) -> pl.DataFrame:
    """Annotations `nccl:…`, `gloo:…` and the like in order of time, with `dtype` and `in_elements` of all inputs."""
    host_rows(run)
    found = host_where(run, OPERATIONS, pl.col("name").str.contains(_BACKENDS), *_ANNOTATION)
    found = found.sort("start", maintain_order=True)
    if found.is_empty():
        return found.with_columns(in_elements=pl.lit(None, pl.Int64), dtype=pl.lit(None, pl.String))
    inputs = found.select("input_dims", "input_types").unique(maintain_order=True)
    described = [_described(dims, types) for dims, types in inputs.iter_rows()]
    told = {
        "in_elements": pl.Series([elements for elements, _ in described], dtype=pl.Int64),
        "dtype": pl.Series([dtype for _, dtype in described], dtype=pl.String),
    }
    return found.join(
        inputs.with_columns(**told), on=inputs.columns, how="left", nulls_equal=True, maintain_order="left"
    )


def _described(dims: str | None, types: str | None) -> tuple[int | None, str | None]:
    """Elements of all inputs, and the type of the first; None where shapes were not recorded."""
    shapes, kinds = _json_list(dims), _json_list(types)
    elements = sum(_elements(shape) for shape in shapes)
    return elements if 0 < elements <= _LARGEST else None, str(kinds[0]).lower() if kinds else None


def _elements(shape: object) -> int:
    """Elements of a shape or of a list of shapes; 0 for what is no tensor."""
    if not isinstance(shape, list) or not shape:
        return 0
    sizes = [size for size in shape if isinstance(size, int)]
    return prod(sizes) if len(sizes) == len(shape) else sum(_elements(part) for part in shape)


def _json_list(text: str | None) -> list[object]:
    try:
        value = json.loads(text or "[]")
    except ValueError:  # a name in a trace can hold anything
        return []
    return value if isinstance(value, list) else []


def _kinds(names: pl.Series, kind: Callable[[str], str | None]) -> pl.Series:
    """What the names stand for, asking once per distinct name."""
    distinct = names.unique().drop_nulls()
    kinds = pl.Series([kind(name) for name in distinct], dtype=pl.String)
    return names.replace_strict(distinct, kinds, default=None, return_dtype=pl.String)


def _with_steps(calls: pl.DataFrame, run: Run) -> pl.DataFrame:
    markers = step_markers(run).select("rank", "step", began="start").unique().sort("began")
    found = calls.sort("launch", nulls_last=True).join_asof(
        markers, left_on="launch", right_on="began", by="rank", strategy="backward", check_sortedness=False
    )
    return found.drop("began")
