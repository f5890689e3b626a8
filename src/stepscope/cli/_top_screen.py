"""What `stepscope top` shows of a reading: a few sentences and three tables."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from stepscope.core.errors import StepscopeError
from stepscope.core.plural import plural
from stepscope.core.report import Block, Cell, Table, Text, Value
from stepscope.core.schema import Unit
from stepscope.observe.pace import Pace
from stepscope.observe.rates import MachineRates, ProcessRates
from stepscope.render.format import shorten

__all__ = ["Reading", "busiest", "screen", "so_far"]

MOST_CORES = 16  # rows; of a larger machine the busiest ones
MOST_PROCESSES = 40
MOST_OF_MACHINE = 15  # processes of a machine: those after them do next to nothing
STILL = 10.0  # times the length of a step: a job whose last step is older waits for something, or hangs
WORTH_TELLING = 0.01  # of the time
_INDENT = "  "
_STATES = {"R": "runs", "S": "sleeps", "D": "waits for I/O", "Z": "ended, not waited for", "T": "stopped", "I": "idle"}
_PROCESSES: tuple[tuple[str, Unit | None], ...] = (
    ("process", None), ("pid", None), ("cores", "count"), ("core wait", "ratio"), ("memory", "bytes"),
    ("read / s", "bytes"), ("written / s", "bytes"), ("state", None), ("threads", "count"), ("command", None),
)  # fmt: skip
_BY_USE = (0, 2, 4, 3, 7, 1, 5, 6, 9, 8)  # of the columns above: what stays on a narrow screen


class Reading(NamedTuple):
    """What happened since the reading before; `pace` is that of a recorded job, None of any other."""

    machine: MachineRates
    processes: Sequence[ProcessRates]
    pace: Pace | None
    gpus: Sequence[Mapping[str, Any]] = ()
    no_gpus: str = ""  # why there are none


def screen(reading: Reading, room: int | None = None) -> list[Block]:
    """All of one reading; command lines with so many letters, None: whole."""
    machine, processes, pace, gpus, no_gpus = reading
    told = [_steps(pace, machine.now.time)] if pace else []
    devices = _gpus(gpus) if gpus else Text(f"GPUs: unavailable, {no_gpus or 'this machine has none'}")
    tables = (_cores(machine), *_disks(machine), devices, _table(processes, room))
    return [*told, _machine(machine), *_strained(machine), *tables]


def so_far(folder: str) -> list[Block]:
    """What a report would say of a job first, were it made now; nothing before there is anything to say."""
    from stepscope.render.format import gain_text, title_text
    from stepscope.report.diagnose import diagnose
    from stepscope.storage import open_run

    try:
        diagnosis = diagnose(open_run([folder]))
    except StepscopeError:
        return []
    blocks: list[Block] = [diagnosis.verdict]
    for block in diagnosis.findings[:1]:
        gain = block.finding.gain
        told = (title_text(block.finding.title), *([gain_text(gain, of_steps=True)] if gain else ()))
        blocks.append(Text(" · ".join(told).replace("{", "{{").replace("}", "}}")))
    return blocks


def busiest(processes: Sequence[ProcessRates]) -> list[ProcessRates]:
    """The processes of a machine that use most of its cores, then of its memory; none of them below another."""
    used = sorted(processes, key=lambda one: (-one.cpu, -one.now.rss))[:MOST_OF_MACHINE]
    return [replace(one, depth=0) for one in used]


def _steps(pace: Pace, now: int) -> Text:
    age = max(0, now - pace.ended)
    still = age > STILL * pace.step_ns
    wait = [] if pace.data_wait is None else [Value(pace.data_wait, "ratio")]
    text = "Step {} · {} per step" + " · data wait {}" * len(wait)
    text += " · no step for {}" if still else " · last step {} ago"
    return Text(text, (Value(pace.step, "count"), Value(pace.step_ns, "ns"), *wait, Value(age, "ns")))


def _machine(machine: MachineRates) -> Text:
    cores = len(machine.cores)
    text = f"{{}} of {{}} {plural(cores, 'core')} in use"
    values = [Value(machine.busy_cores, "count"), Value(cores, "count")]
    for name, sizes in (("memory", machine.now.memory), ("swap", machine.now.swap), ("/dev/shm", machine.now.shared)):
        if sizes is not None and sizes[1]:
            text += f" · {name} {{}} of {{}}"
            values += [Value(sizes[0], "bytes"), Value(sizes[1], "bytes")]
    for name, size in (("network in", machine.received), ("out", machine.sent)):
        if size is not None:
            text += f" · {name} {{}}/s"
            values.append(Value(size, "bytes"))
    return Text(text, tuple(values))


def _strained(machine: MachineRates) -> list[Block]:
    """What tasks waited for, and a CPU quota that is used up; nothing where there was none."""
    waits = [(name, share) for name, share in machine.stalled.items() if share >= WORTH_TELLING]
    parts = [f"for {'I/O' if name == 'io' else 'CPU' if name == 'cpu' else name} {{}}" for name, _ in waits]
    blocks: list[Block] = []
    if waits:
        text = f"Some task waited {', '.join(parts)} of the time"
        blocks.append(Text(text, tuple(Value(share, "ratio") for _, share in waits)))
    if machine.throttled and machine.throttled >= WORTH_TELLING:
        blocks.append(Text("The CPU quota of this container was used up {} of the time", (_ratio(machine.throttled),)))
    return blocks


def _ratio(share: float) -> Value:
    return Value(share, "ratio")


def _cores(machine: MachineRates) -> Table:
    shown = machine.cores
    if len(shown) > MOST_CORES:
        shown = tuple(sorted(shown, key=lambda core: -core.busy)[:MOST_CORES])
    units: tuple[tuple[str, Unit | None], ...] = (
        ("core", None), ("busy", "ratio"), ("programs", "ratio"), ("kernel", "ratio"), ("waits for disk", "ratio"),
        ("stolen", "ratio"),
    )  # fmt: skip
    rows = tuple((core.core, core.busy, core.user, core.system, core.iowait, core.steal) for core in shown)
    return Table("Cores", units, rows)


def _disks(machine: MachineRates) -> list[Block]:
    if not machine.disks:
        return []
    units: tuple[tuple[str, Unit | None], ...] = (
        ("disk", None), ("reads / s", "count"), ("read / s", "bytes"), ("writes / s", "count"),
        ("written / s", "bytes"), ("wait", "ns"), ("queue", "count"), ("busy", "ratio"),
    )  # fmt: skip
    rows = tuple(
        (disk.name, disk.reads, disk.read, disk.writes, disk.written, disk.wait, disk.queue, disk.busy)
        for disk in machine.disks
    )
    return [Table("Disks", units, rows)]


def _gpus(gpus: Sequence[Mapping[str, Any]]) -> Table:
    units: tuple[tuple[str, Unit | None], ...] = (
        ("GPU", None), ("name", None), ("utilization", "ratio"), ("memory", "bytes"), ("of", "bytes"),
        ("power", "watts"),
    )  # fmt: skip
    names = ("index", "name", "utilization_ratio", "memory_used_bytes", "memory_total_bytes", "power_w")
    return Table("GPUs", units, tuple(tuple(gpu.get(name) for name in names) for gpu in gpus))


def _table(processes: Sequence[ProcessRates], room: int | None) -> Table:
    names = _names(processes)
    rows = tuple(_row(one, names[one.now.pid], room) for one in processes[:MOST_PROCESSES])
    return Table("Processes", _PROCESSES, rows, order=_BY_USE)


def _row(one: ProcessRates, name: str, room: int | None) -> tuple[Cell, ...]:
    now = one.now
    command = now.command or f"[{now.name}]"
    return (
        _INDENT * one.depth + name, now.pid, one.cpu, one.waited, now.rss, one.read, one.written,
        _STATES.get(now.state, now.state), now.threads, command if room is None else shorten(command, room),
    )  # fmt: skip


def _names(processes: Sequence[ProcessRates]) -> dict[int, str]:
    """What each is to the job: a rank, a worker of a loader, or what the kernel calls it."""
    workers: dict[int, int] = {}
    names: dict[int, str] = {}
    ranks: dict[int, int | None] = {}
    for one in processes:
        now = one.now
        above = ranks.get(now.parent)
        ranks[now.pid] = now.rank
        if now.worker:
            number = workers[now.parent] = workers.get(now.parent, -1) + 1
            names[now.pid] = f"loader worker {number}"
        elif now.rank is not None and now.rank != above:
            names[now.pid] = f"rank {now.rank} ({now.name})"
        else:
            names[now.pid] = now.name
    return names
