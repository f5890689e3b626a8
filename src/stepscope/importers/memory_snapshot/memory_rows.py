"""From a snapshot of the caching allocator to rows of memory events."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import polars as pl

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.memory_snapshot.plain_pickle import AGAIN
from stepscope.importers.memory_snapshot.stacks import Stacks

__all__ = ["BEFORE", "add_snapshot"]

BEFORE = "before the recording"
"""The category of blocks whose allocation a snapshot no longer holds."""

OUT_OF_MEMORY = "[OutOfMemory]"  # as the profiler names such an event
_ACCELERATOR = 1  # torch's number of CUDA, under which ROCm goes too
_US = 1000  # ns
_RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_BROKEN = "entry of a snapshot that is not as torch writes it: left out"
_NO_TIMES = "snapshot without times (of before torch 2.2): its entries are numbered, 1 ns apart"
_NO_STATE = "snapshot without segments: levels are counted from 0"

Entry = dict[str, Any]


@dataclass(slots=True)
class _Rows:
    """Columns of memory rows of one device, in the order of time."""

    time: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    address: list[int | None] = field(default_factory=list)
    category: list[str | None] = field(default_factory=list)
    stack: list[str | None] = field(default_factory=list)

    def add(self, time: int, size: int, reserved: int, address: int | None, stack: str | None) -> None:
        self.time.append(time)
        self.size.append(size)
        self.reserved.append(reserved)
        self.address.append(address)
        self.category.append(None)
        self.stack.append(stack)


def add_snapshot(path: AnyPath, snapshot: object, rank: int, sink: Sink) -> None:
    """Fill memory, instants and meta. Raises BadInput if `snapshot` is none, or holds nothing."""
    if not isinstance(snapshot, dict) or not {"segments", "device_traces"} & set(snapshot):
        raise BadInput(path, "a pickle, but of no memory snapshot: no segments, no device_traces", next_step=AGAIN)
    segments, traces = _lists(snapshot.get("segments")), snapshot.get("device_traces")
    traces = [_lists(trace) for trace in traces] if isinstance(traces, list) else []
    if "segments" not in snapshot:
        sink.skip(str(path), _NO_STATE)
    stacks, index = Stacks(), 0
    known = {number for number in (_whole(segment.get("device", 0)) for segment in segments) if number is not None}
    for device in sorted(known | {number for number, trace in enumerate(traces) if trace}):
        own = [segment for segment in segments if _whole(segment.get("device", 0)) == device]
        state = own if "segments" in snapshot else None
        entries = traces[device] if 0 <= device < len(traces) else []
        index = _add_device(path, rank, device, state, entries, stacks, index, sink)
    if not index:
        raise BadInput(path, "a memory snapshot that holds no allocation and no segment", next_step=AGAIN)
    settings = snapshot.get("allocator_settings")
    for key, value in settings.items() if isinstance(settings, dict) else ():
        sink.row("meta", source=str(path), key=f"allocator {key}", value=str(value))


def _add_device(
    path: AnyPath, rank: int, device: int, state: list[Entry] | None, entries: list[Entry], stacks: Stacks, index: int,
    sink: Sink,
) -> int:  # fmt: skip
    """Add the rows of one device, whose segments are `state` (None: unknown). Returns the number of rows so far."""
    segments = state or []
    usable = [entry for entry in entries if _is_usable(entry)]
    sink.skip(str(path), _BROKEN, len(entries) - len(usable))
    if usable and not all("time_us" in entry for entry in usable):
        sink.skip(str(path), _NO_TIMES)
        usable = [{**entry, "time_us": None} for entry in usable]
    held = sum(_whole(segment.get("total_size")) or 0 for segment in segments)
    rows = _events(usable, held, stacks)
    alive = _alive(usable)
    before = [block for block in _blocks(segments) if block[0] not in alive]
    _before(rows, before, held, stacks)
    start = 0 if state is None else sum(size for _, size, _ in _blocks(segments)) - sum(rows.size)
    count = len(rows.size)
    levels = list(accumulate(rows.size, initial=start))[1:]
    sink.add(
        "memory",
        {
            "rank": [rank] * count, "index": range(index, index + count), "time": rows.time,
            "device_type": [_ACCELERATOR] * count, "device": [device] * count, "bytes": rows.size,
            "address": rows.address, "total_allocated": levels, "total_reserved": rows.reserved,
            "category": pl.Series(rows.category, dtype=pl.String), "call_stack": pl.Series(rows.stack, dtype=pl.String),
        },
    )  # fmt: skip
    failed = [entry for entry in usable if entry["action"] == "oom"]
    times = [_time(position, entry) for position, entry in enumerate(usable) if entry["action"] == "oom"]
    sink.add(
        "instants",
        {
            "rank": [rank] * len(failed), "index": range(index + count, index + count + len(failed)),
            "name": [OUT_OF_MEMORY] * len(failed), "time": times,
        },
    )  # fmt: skip
    return index + count + len(failed)


def _events(entries: list[Entry], held: int, stacks: Stacks) -> _Rows:
    """Rows of allocations, frees and changes of segments; `held` is what was reserved at the end."""
    requested = any(entry["action"] == "free_requested" for entry in entries)
    frees = "free_requested" if requested else "free_completed"
    reserves = [_RESERVES.get(entry["action"], 0) * entry["size"] for entry in entries]
    reserved = held - sum(reserves)
    rows = _Rows()
    for position, (entry, change) in enumerate(zip(entries, reserves, strict=True)):
        reserved += change
        action, size, address = entry["action"], entry["size"], entry.get("addr")
        time, stack = _time(position, entry), stacks.of(entry.get("frames"))
        if action == "alloc":
            rows.add(time, size, reserved, address, stack)
        elif action == frees:
            rows.add(time, -size, reserved, address, stack)
        elif change:
            rows.add(time, 0, reserved, None, stack)
    return rows


def _before(rows: _Rows, blocks: list[tuple[int, int, object]], held: int, stacks: Stacks) -> None:
    """Put blocks that no entry allocates before the first row."""
    time = rows.time[0] if rows.time else 0
    # What the allocator held at the first event is known; that it held it before, too, is the nearest guess there is.
    reserved = rows.reserved[0] if rows.reserved else held
    count = len(blocks)
    rows.time[:0] = [time] * count
    rows.size[:0] = [size for _, size, _ in blocks]
    rows.reserved[:0] = [reserved] * count
    rows.address[:0] = [address for address, _, _ in blocks]
    rows.category[:0] = [BEFORE] * count
    rows.stack[:0] = [stacks.of(frames) for _, _, frames in blocks]


def _alive(entries: Iterable[Entry]) -> set[int]:
    """Addresses that the entries allocate and do not free."""
    alive: set[int] = set()
    for entry in entries:
        if entry["action"] == "alloc":
            alive.add(entry["addr"])
        elif entry["action"] in ("free_requested", "free_completed"):
            alive.discard(entry["addr"])
    return alive


def _blocks(segments: Iterable[Entry]) -> list[tuple[int, int, object]]:
    """Address, requested size and frames of the blocks that are in use; older snapshots keep the last in `history`."""
    found = []
    for segment in segments:
        address = _whole(segment.get("address")) or 0
        for block in _lists(segment.get("blocks")):
            size = _whole(block.get("size")) or 0
            history = _lists(block.get("history"))[:1] or [{}]
            asked = _whole(block.get("requested_size", history[0].get("real_size"))) or size
            if block.get("state") == "active_allocated":
                place = _whole(block.get("address"))
                found.append(
                    (address if place is None else place, asked, block.get("frames", history[0].get("frames")))
                )
            address += size
    return found


def _is_usable(entry: Entry) -> bool:
    """An action with a size, and an address where it is about a block."""
    action = entry.get("action")
    if not isinstance(action, str) or _whole(entry.get("size", 0)) is None:
        return False
    entry.setdefault("size", 0)
    about_block = action in ("alloc", "free_requested", "free_completed")
    return not about_block or _whole(entry.get("addr")) is not None


def _time(position: int, entry: Entry) -> int:
    time = _whole(entry.get("time_us"))
    return position if time is None else time * _US


def _lists(value: object) -> list[Entry]:
    """The dictionaries of a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None
