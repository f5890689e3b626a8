"""One process of a run: who it is, what it learnt about the job, its steps, its sampled lines and its traces."""

import re
from dataclasses import dataclass

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath, is_file, is_folder
from stepscope.importers import append
from stepscope.importers.run_dir.clocks import clock_of
from stepscope.importers.run_dir.json_files import Note, Row, flag, number, read_lines, read_object, text, word
from stepscope.importers.run_dir.loading import add_loading
from stepscope.importers.run_dir.outer_steps import outer_steps
from stepscope.importers.run_dir.sources import add_sources
from stepscope.importers.run_dir.stacks import add_stacks
from stepscope.importers.run_dir.steps import add_steps
from stepscope.importers.run_dir.thread_times import add_thread_times
from stepscope.run_format import files

__all__ = ["Process", "add_process", "add_recorded", "find_processes", "is_process"]

_FOLDER = re.compile(r"rank-(\d+)\.pid-(\d+)(?:\.\d+)?")
_LARGEST_RANK = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Process:
    """The folder of one process, its rank in its job, and the ranks of that (None: it was told of no other)."""

    folder: AnyPath
    about: Row
    pid: str
    rank: int
    rank_source: str
    world_size: int | None

    @property
    def began(self) -> int:
        """When it was first seen, ns since the Unix epoch; 0 if it does not say."""
        clock = self.about.get("clock")
        return number(clock.get("epoch_ns")) or 0 if isinstance(clock, dict) else 0


def find_processes(path: AnyPath, sink: Sink) -> list[Process]:
    """The processes that trained, of whichever job."""
    folders: list[AnyPath] = [*path.glob("rank-*.pid-*")]
    folders.sort(key=lambda folder: folder.name)
    return [process for folder in folders if (process := _identify(folder, sink))]


def is_process(folder: AnyPath) -> bool:
    """Whether it is a folder that a process of a run wrote."""
    written = (folder / name for name in (files.PROCESS, files.STEPS))
    return _FOLDER.fullmatch(folder.name) is not None and any(map(is_file, written))


def add_process(process: Process, sink: Sink) -> None:
    """Add all tables of a process."""

    def note(reason: str, count: int) -> None:
        sink.skip(str(process.folder), reason, count)

    torch, windows = add_recorded(process, sink)
    described = _add_traces(process, windows, note, sink)
    if not described:
        _add_devices(process, torch, sink)


def add_recorded(process: Process, sink: Sink) -> tuple[Row, list[Row]]:
    """Add what was recorded of a process beside traces; returns the facts of torch, and the traced windows."""

    def note(reason: str, count: int) -> None:
        sink.skip(str(process.folder), reason, count)

    facts = read_lines(process.folder / files.FACTS, note)
    last = {str(fact.get("kind")): fact for fact in facts}
    _add_identity(process, last.get("torch", {}), last.get("distributed", {}), sink)
    _add_loaders(process, facts, sink)
    _add_optimizers(process, facts, sink)
    _add_graph_breaks(process, facts, sink)
    _add_meta(process, facts, sink)
    windows = read_lines(process.folder / files.WINDOWS, note)
    outer = outer_steps(facts)
    merged = add_steps(process.folder, process.rank, process.pid, windows, outer, note, sink)
    add_stacks(process.folder, process.rank, process.pid, outer, merged, note, sink)
    _add_windows(process, windows, sink)
    known: set[tuple[str, int]] = set()
    add_sources(read_lines(process.folder / files.SOURCES, note), process.rank, process.pid, known, note, sink)
    _add_clocked(process, windows, known, note, sink)
    return last.get("torch", {}), windows


def _identify(folder: AnyPath, sink: Sink) -> Process | None:
    def note(reason: str, count: int) -> None:
        sink.skip(str(folder), reason, count)

    name = _FOLDER.fullmatch(folder.name)
    if not name or not is_folder(folder):
        return None
    about = read_object(folder / files.PROCESS, note)
    if about is None:
        note("no description of the process (process.json): rank and pid taken from the name of the folder", 1)
        about = {}
    rank, source, pid = (
        number(about.get("rank")),
        word(about.get("rank_source")) or "assumed",
        str(about.get("pid", name[2])),
    )
    told = next(
        (fact for fact in read_lines(folder / files.FACTS, _said_later) if fact.get("kind") == "distributed"), {}
    )
    world = number(about.get("world_size")) or number(told.get("world_size"))
    if source == "assumed" and number(told.get("rank")) is not None:
        rank, source = number(told.get("rank")), "torch.distributed"  # its group was made after the first step
    if rank is None or not 0 <= rank <= _LARGEST_RANK:
        rank, source = int(name[1]), "file name"
    return Process(folder, about, pid, rank, source, world if world and 0 < world <= _LARGEST_RANK else None)


def _said_later(reason: str, count: int) -> None:
    """What is damaged of a file is told by whoever reads it for the tables."""


def _add_identity(process: Process, torch: Row, distributed: Row, sink: Sink) -> None:
    about = process.about
    version = word(about.get("torch"))
    sink.row(
        "processes",
        rank=process.rank,
        pid=process.pid,
        rank_source=process.rank_source,
        world_size=process.world_size,
        host=word(about.get("host")),
        framework=f"torch {version}" if version else None,
        python=word(about.get("python")),
        backend=word(distributed.get("backend")),
        threads=number(torch.get("threads")),
        affinity=number(torch.get("affinity")),
        matmul_precision=word(torch.get("matmul_precision")),
        probe=word(about.get("probe")),
        probe_cost=number(about.get("probe_step_ns")),
        source=str(process.folder),
    )


def _add_loaders(process: Process, facts: list[Row], sink: Sink) -> None:
    training = {number(fact.get("id")) for fact in facts if fact.get("kind") == "train_loader"}
    loaders = {number(fact.get("id")): fact for fact in facts if fact.get("kind") == "loader"}
    for identifier, fact in loaders.items():
        sink.row(
            "loaders",
            rank=process.rank,
            pid=process.pid,
            loader=identifier,
            train=identifier in training,
            **{name: word(fact.get(name)) for name in _LOADER_WORDS},
            **{name: number(fact.get(name)) for name in _LOADER_NUMBERS},
            **{name: flag(fact.get(name)) for name in ("pin_memory", "persistent_workers", "shards")},
        )


_LOADER_WORDS = ("dataset", "dataset_file", "collate", "collate_file", "made_file", "made_by")
_LOADER_NUMBERS = ("dataset_line", "collate_line", "made_line", "batch_size", "num_workers", "prefetch_factor")


def _add_graph_breaks(process: Process, facts: list[Row], sink: Sink) -> None:
    for fact in facts:
        if fact.get("kind") == "graph_break":
            sink.row(
                "graph_breaks",
                rank=process.rank,
                pid=process.pid,
                file=word(fact.get("break_file")),
                line=number(fact.get("break_line")),
                function=word(fact.get("function")),
                reason=word(fact.get("reason")),
                count=number(fact.get("count")),
            )


def _add_optimizers(process: Process, facts: list[Row], sink: Sink) -> None:
    for fact in facts:
        if fact.get("kind") == "optimizer":
            sink.row(
                "optimizers",
                rank=process.rank,
                pid=process.pid,
                name=word(fact.get("class")),
                module=word(fact.get("module")),
                dtype=word(fact.get("dtype")),
                **{name: number(fact.get(name)) for name in ("groups", "parameters", "elements")},
                **{name: flag(fact.get(name)) for name in ("foreach", "fused")},
            )


def _add_devices(process: Process, torch: Row, sink: Sink) -> None:
    devices = torch.get("devices")
    for device in devices if isinstance(devices, list) else []:
        index = number(device.get("index")) if isinstance(device, dict) else None
        if index is not None and abs(index) <= _LARGEST_RANK:
            sink.row(
                "devices",
                rank=process.rank,
                device=index,
                name=word(device.get("name")),
                memory=number(device.get("total_memory")),
                capability=word(device.get("capability")),
                sms=number(device.get("sms")),
            )


def _add_meta(process: Process, facts: list[Row], sink: Sink) -> None:
    """The command line, the settings of torch, and every other fact as a whole, for what has no column."""
    found: list[tuple[str, object]] = [
        (key, process.about[key]) for key in ("argv", "local_rank") if key in process.about
    ]
    for fact in facts:
        kind = str(fact.get("kind"))
        if kind == "torch":
            found += [(key, value) for key, value in fact.items() if key not in ("kind", "devices")]
        elif kind != "train_loader":
            found.append((f"{kind} {fact['id']}" if "id" in fact else kind, fact))
    for key, value in found:
        sink.row("meta", source=str(process.folder), key=key, value=text(value))


def _add_windows(process: Process, windows: list[Row], sink: Sink) -> None:
    for window in windows:
        costs = [number(window.get(name)) for name in ("start_cost_ns", "stop_cost_ns", "export_cost_ns")]
        trace = word(window.get("trace"))
        sink.row(
            "windows",
            rank=process.rank,
            pid=process.pid,
            **{name: number(window.get(name)) for name in ("window", "first_step", "last_step")},
            status=word(window.get("status")),
            reason=word(window.get("reason")),
            trace=trace and str(process.folder / trace),
            cost=sum(cost for cost in costs if cost is not None) if any(cost is not None for cost in costs) else None,
        )


def _add_clocked(process: Process, windows: list[Row], known: set[tuple[str, int]], note: Note, sink: Sink) -> None:
    """Add the readings of clocks, and the spans of loading, which several processes wrote on one clock."""
    clock, run = clock_of(process.folder, process.rank, process.pid, process.about), process.folder.parent
    if clock is None:
        left = is_folder(run / files.LOADING)
        note("no reading of the clocks in steps.bin and process.json: spans of loading left out", int(left))
        return
    clock.add("start", [process.about.get("clock")], sink)
    add_thread_times(process.folder, clock, note, sink)
    for window in windows:
        read = window.get("clocks")
        clock.add(f"window {number(window.get('window'))}", read if isinstance(read, list) else [], sink)
    add_loading(run, clock, word(process.about.get("host")), known, note, sink)


def _add_traces(process: Process, windows: list[Row], note: Note, sink: Sink) -> bool:
    """Add the traces of the windows; true if one described the devices."""
    described = False
    for window in windows:
        trace = word(window.get("trace"))
        if trace:
            before = len(sink.parts.get("devices", ()))
            leave = {"processes", "devices"} if described else {"processes"}
            try:
                append(process.folder / trace, sink, rank=process.rank, leave=frozenset(leave))
            except BadInput as error:
                note(f"trace of window {window.get('window')}, {error.why}: not read", 1)
            described |= len(sink.parts.get("devices", ())) > before
    return described
