"""Traces of writers that name no categories: Ascend's profiler (torch_npu) and the export of torch.autograd.profiler.

Ascend writes each layer as a process of its own, whose name says what it is: `Ascend Hardware` has a thread for each
stream, with the tasks of the NPU; `Communication` (before 2024 `HCCL`) has one for each group, with its collectives,
and one for each plane, with the pieces of these. Tasks are work of the device: collectives are kernels, pieces of them
are not work again; waits and notes between streams are no work either. The layers above (`CANN`, `Python`) stay.

`torch.autograd.profiler` writes operators as the process `CPU functions`, and kernels as `CUDA functions`.
"""

import re

import polars as pl

from stepscope.core.importing import Sink
from stepscope.core.schema import TABLES, polars_schema
from stepscope.importers.kineto.columns import Event, given, located
from stepscope.importers.kineto.header import Identity

__all__ = ["NOT_KNOWN", "adopt", "unknown"]

NOT_KNOWN = "event of no known category: only in the timeline"
"""Told where all events of a trace are such."""

_TASKS = ("Ascend Hardware",)
_COLLECTIVES = ("Communication", "HCCL")
_OPERATORS, _KERNELS = "CPU functions", "CUDA functions"
_NUMBER = re.compile(r"(\d+)\s*$")
_COLLECTIVE = r"(?i)^hcom_"
_COPY = r"(?i)memcpy|sdma|pcie_dma"
_SET = r"(?i)memset"
_WAIT = (
    r"(?i)^(?:event|notify|capture|stream|wait)[_ ]?(?:wait|record|reset|active|value)|^model[_ ](?:execute|maintaince)"
    r"|^place_?holder|^profil(?:er|ing)_"
)


def adopt(metadata: list[Event], identity: Identity, sink: Sink) -> None:
    """Make device work and operators of such events, which `sink` holds as host events of kind other."""
    processes = [event for event in metadata if event.get("name") == "process_name"]
    names = dict(
        zip(
            located(event.get("pid") for event in processes), (given(event, "name") for event in processes), strict=True
        )
    )
    tasks = [pid for pid, name in names.items() if name in _TASKS]
    groups = [pid for pid, name in names.items() if name in _COLLECTIVES] if tasks else []
    if tasks:
        threads = _threads(metadata)
        _move(sink, [*tasks, *groups], _ascend_kind(groups), identity, device=_device(metadata, tasks), named=threads)
    _move(sink, [_KERNELS], pl.lit("kernel"), identity, device=None, named={})
    host = pl.concat(sink.parts["host"])
    if (host["pid"] == _OPERATORS).any():
        kind = pl.when((pl.col("kind") == "other") & (pl.col("pid") == _OPERATORS)).then(pl.lit("operator"))
        sink.parts["host"] = [host.with_columns(kind=kind.otherwise("kind"))]


def unknown(sink: Sink) -> int:
    """How many events there are, if all of them are of no known category."""
    if any(frame.height for frame in sink.parts.get("device", ())):
        return 0
    host = pl.concat(sink.parts["host"])["kind"]
    return host.len() if (host == "other").all() else 0


def _ascend_kind(groups: list[str]) -> pl.Expr:
    name, of_group = pl.col("name"), pl.col("pid").is_in(groups)
    return (
        pl.when(of_group)
        .then(pl.when(name.str.contains(_COLLECTIVE)).then(pl.lit("kernel")).otherwise(pl.lit("other")))
        .when(name.str.contains(_WAIT))
        .then(pl.lit("sync"))
        .when(name.str.contains(_COPY))
        .then(pl.lit("memcpy"))
        .when(name.str.contains(_SET))
        .then(pl.lit("memset"))
        .otherwise(pl.lit("kernel"))
    )


def _move(
    sink: Sink, pids: list[str], kind: pl.Expr, identity: Identity, *, device: int | None,
    named: dict[tuple[str, str], str],
) -> None:  # fmt: skip
    """Turn the host events of some processes into work of a device; `device` None: the thread is its number."""
    host = pl.concat(sink.parts["host"])
    is_moved = host["pid"].is_in(pids) & (host["kind"] == "other")
    if not is_moved.any():
        return
    moved = host.filter(is_moved)
    streams = [
        named.get(home, home[1]).removeprefix("Stream ").strip() for home in moved.select("pid", "thread").iter_rows()
    ]
    numbers = moved["thread"].cast(pl.Int32, strict=False) if device is None else pl.lit(device, dtype=pl.Int32)
    work = moved.select(
        "rank", "index", "name", "start", "end", "correlation", "external_id", kind=kind, device=numbers,
        pid=pl.lit(identity.pid or pids[0]), stream=pl.Series(streams, dtype=pl.String),
    )  # fmt: skip
    schema = polars_schema(TABLES["device"])
    missing = [pl.lit(None, dtype=type_).alias(name) for name, type_ in schema.items() if name not in work.columns]
    work = work.with_columns(missing).select(pl.col(name).cast(type_) for name, type_ in schema.items())
    sink.parts["device"] = [pl.concat([*sink.parts.get("device", []), work]).sort("index")]
    sink.parts["host"] = [host.filter(~is_moved)]


def _threads(metadata: list[Event]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for event in metadata:
        if event.get("name") == "thread_name":
            pid, thread = located((event.get("pid"), event.get("tid")))
            found[pid, thread] = given(event, "name") or thread
    return found


def _device(metadata: list[Event], tasks: list[str]) -> int:
    """The number of the NPU, which the label of its process ends in; a process uses one, 0 if nothing says which."""
    for event in metadata:
        if event.get("name") == "process_labels" and located([event.get("pid")])[0] in tasks:
            number = _NUMBER.search(given(event, "labels") or "")
            if number and len(number[1]) < 6:
                return int(number[1])
    return 0
