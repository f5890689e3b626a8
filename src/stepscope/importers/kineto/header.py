"""What stands around the events: the process, its rank, its devices, and everything else as meta data."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers import rank_in_name
from stepscope.importers.kineto.columns import Event, as_json
from stepscope.importers.kineto.decimals import FARTHEST, whole_number
from stepscope.importers.kineto.json_repair import EVENTS
from stepscope.importers.kineto.source import Note

__all__ = ["NAMINGS", "Identity", "add_devices", "add_meta", "add_process", "base_time", "identify", "is_xla"]

NAMINGS = ("thread_name", "process_name", "process_labels")
"""Metadata events that are used."""

_LARGEST = 2**31 - 1
_OF_XLA = {"highres-ticks": True}  # the whole of `metadata` in a profile of JAX or TensorFlow; Chrome writes more
_XLA_TELLS = (
    "this is a profile of XLA (JAX or TensorFlow), whose events are read as they are: `stepscope show host PATH` lists "
    "them; which of them are steps, operators and kernels is not known. XProf reads all of it: "
    "`pip install xprof`, then `xprof FOLDER`, the folder above plugins/"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process of the job a trace is of. `world_size` and `pid` are None when unknown."""

    rank: int
    rank_source: str
    world_size: int | None
    pid: str | None


def identify(header: dict[str, Any], path: AnyPath, pids: Counter[str]) -> Identity:
    """Rank from distributedInfo, else from the name of the file, else 0; the process is the one with most events."""
    distributed = _dict(header.get("distributedInfo"))
    world_size = _positive(whole_number(distributed.get("world_size")))
    pid = pids.most_common(1)[0][0] if pids else None
    rank = whole_number(distributed.get("rank"))
    if rank is not None and 0 <= rank <= _LARGEST:
        return Identity(rank, "trace", world_size, pid)
    return Identity(*rank_in_name(path), world_size, pid)


def base_time(header: dict[str, Any], note: Note) -> int:
    """`baseTimeNanoseconds`, which every time is relative to; 0 in traces that hold absolute times."""
    if "baseTimeNanoseconds" not in header:
        return 0
    base = whole_number(header["baseTimeNanoseconds"])
    if base is None or not -FARTHEST <= base <= FARTHEST:
        note("baseTimeNanoseconds that is not a time: read as 0", 1)
        return 0
    return base


def add_process(header: dict[str, Any], path: AnyPath, identity: Identity, sink: Sink) -> None:
    """One row of `processes`."""
    distributed = _dict(header.get("distributedInfo"))
    torch = "schemaVersion" in header and "deviceProperties" in header
    sink.row(
        "processes",
        rank=identity.rank,
        pid=identity.pid,
        rank_source=identity.rank_source,
        world_size=identity.world_size,
        host=_word(header.get("host_name")),
        framework="torch" if torch else "xla" if is_xla(header) else None,
        backend=_word(distributed.get("backend")),
        source=str(path),
    )


def add_devices(header: dict[str, Any], rank: int, note: Note, sink: Sink) -> None:
    """Rows of `devices` from deviceProperties (computeProperties in the oldest traces)."""
    properties = header.get("deviceProperties", header.get("computeProperties"))
    known = [device for device in properties if isinstance(device, dict)] if isinstance(properties, list) else []
    for device in known:
        number = whole_number(device.get("id"))
        if number is None or not -_LARGEST <= number <= _LARGEST:
            note("device without an id: not read", 1)
            continue
        major, minor = whole_number(device.get("computeMajor")), whole_number(device.get("computeMinor"))
        sink.row(
            "devices",
            rank=rank,
            device=number,
            name=_word(device.get("name")),
            memory=whole_number(device.get("totalGlobalMem")),
            capability=None if major is None or minor is None else f"{major}.{minor}",
            sms=_positive(whole_number(device.get("numSms"))),
            max_threads_per_sm=_positive(
                whole_number(device.get("maxThreadsPerMultiprocessor", device.get("maxThreadsPerMultiProcessor")))
            ),
            warp_size=_positive(whole_number(device.get("warpSize"))),
        )


def add_meta(header: dict[str, Any], path: AnyPath, metadata: list[Event], sink: Sink) -> None:
    """Every header entry, and the names and labels of processes, as rows of `meta`."""
    found = {key: value for key, value in header.items() if key not in (EVENTS, "deviceProperties")}
    for event in metadata:
        arguments = _dict(event.get("args"))
        if event.get("name") == "process_name":
            found[f"process_name {event.get('pid')}"] = arguments.get("name")
        elif event.get("name") == "process_labels":
            found[f"process_labels {event.get('pid')}"] = arguments.get("labels")
    if is_xla(header):
        found["no_steps"] = _XLA_TELLS
    values = [value if isinstance(value, str) else as_json(value) for value in found.values()]
    sink.add("meta", {"source": [str(path)] * len(found), "key": list(found), "value": values})


def is_xla(header: dict[str, Any]) -> bool:
    """Whether it is of JAX or TensorFlow."""
    return header.get("metadata") == _OF_XLA and "schemaVersion" not in header


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _positive(value: int | None) -> int | None:
    return value if value is not None and 0 < value <= _LARGEST else None
