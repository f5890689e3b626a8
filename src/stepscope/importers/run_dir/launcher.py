"""What the launcher wrote: the command, its end, the load of the machine, and why there may be no steps."""

import re
from collections.abc import Sequence
from pathlib import Path
from socket import gethostname

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath
from stepscope.importers.run_dir.json_files import Note, Row, number, read_lines, text, word
from stepscope.importers.run_dir.process import Process
from stepscope.run_format import files

__all__ = ["add_launcher", "add_no_steps", "add_not_recorded", "add_system", "check_format"]

FORMAT = "stepscope-run"
VERSION = 1
_GPU = (
    ("utilization_ratio", "utilization", "ratio"),
    ("memory_used_bytes", "memory", "bytes"),
    ("power_w", "power", "watts"),
)
_OF_RANKS = (
    ("core_wait_ratio", "core wait", "ratio"),
    ("page_faults", "page faults", "per second"),
    ("kernel_cores", "kernel CPU", "cores"),
)
_COMMANDS_SHOWN = 3
_MOST_BYTES = 16 << 20  # of system.jsonl: rows evenly spaced tell the same, and of more each costs some 20 µs
_OF_PROCESS = re.compile(r"\b(process|pid[ -]?)\s*\d+(?:\.\d+)?")
_LIKE_IT = re.compile(r" and \d+ others?$")
_RUNNING = "running"
_KILLED = "stepscope was killed before the job ended"


def check_format(path: AnyPath, run: Row | None) -> None:
    """Raise BadInput if the run folder is of a kind that this version cannot read."""
    if run is None:
        return
    version = run.get("version")
    if run.get("format") != FORMAT or number(version) is None:
        why = f"not a run of stepscope (format {run.get('format')!r}, version {version!r})"
        raise BadInput(path / files.RUN, why, next_step="Record one: `stepscope run -- COMMAND`.")
    if version != VERSION:
        why = f"a run folder of format version {version}; this stepscope reads version {VERSION}"
        raise BadInput(path, why, next_step="Upgrade it: `pip install --upgrade stepscope`.")


def add_launcher(path: AnyPath, run: Row | None, end: Row | None, sink: Sink) -> None:
    """The entries of run.json and end.json as meta data; `state` says whether the run has ended."""
    if run is None:
        sink.skip(str(path), "no run.json: command and options are not known")
    entries = {**(run or {}), **(end or {})}
    entries.pop("not_recorded", None)
    entries["state"] = "ended" if end else _state(run or {})
    if entries["state"] == _KILLED:
        sink.skip(str(path), f"{_KILLED}: how the job ended, and the load of the machine since, are not known")
    for key, value in entries.items():
        sink.row("meta", source=str(path), key=key, value=text(value))


def _state(run: Row) -> str:
    """How a run without an end stands: known where it was started on this machine."""
    launcher = run.get("launcher")
    if not isinstance(launcher, dict) or run.get("host") != gethostname() or not Path("/proc/self/stat").exists():
        return "running, or stepscope was killed"
    try:
        stat = Path(f"/proc/{number(launcher.get('pid'))}/stat").read_bytes()
    except OSError:
        return _KILLED
    started = int(stat.rpartition(b")")[2].split()[19])
    return _RUNNING if started == number(launcher.get("start_ticks")) else _KILLED


def add_not_recorded(path: AnyPath, processes: Sequence[Process], end: Row | None, note: Note, sink: Sink) -> None:
    """What the processes and the launcher could not record; the launcher repeats the notes of the processes."""
    repeated: set[tuple[str, str]] = set()
    for folder in (path, *(process.folder for process in processes)):
        alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for row in read_lines(folder / files.NOTES, note):
            what, why = text(row.get("what")), text(row.get("why"))
            why += f"; {text(row.get('next'))}" if row.get("next") else ""
            repeated.add(_kind_of(what if folder == path else f"{what} of {folder.name}", why))
            alike.setdefault(_kind_of(what, why), []).append((what, why))
        for (what, why), *others in alike.values():
            more = f" (and {len(others)} more like it)" if others else ""
            sink.skip(str(folder), f"{what} not recorded: {why}{more}")
    entries = end.get("not_recorded") if end else None
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            what, why = text(entry.get("what")), text(entry.get("why"))
            if _kind_of(what, why) not in repeated:
                sink.skip(str(path), f"{what} not recorded: {why}")


def _kind_of(what: str, why: str) -> tuple[str, str]:
    """Notes that differ in the number of a process only are of one kind; so is one that stands for several."""
    what = _LIKE_IT.sub("", what)
    return _OF_PROCESS.sub(r"\1 #", what), _OF_PROCESS.sub(r"\1 #", why)


def add_system(path: AnyPath, processes: Sequence[Process], note: Note, sink: Sink) -> None:
    """The samples of the machine's load, one row for each measure; those of processes that trained with their rank."""
    rows: list[tuple[int, int | None, str, float, str]] = []
    ranks = {process.pid: process.rank for process in processes}
    timeless = 0
    for sample in read_lines(path / files.SYSTEM, note, _MOST_BYTES):
        time = number(sample.get("epoch_ns"))
        if time is None:
            timeless += 1
            continue
        rows += [(time, *measure) for measure in _measures(sample, ranks)]
    note("sample of the system without a time: left out", timeless)
    names = ("time", "rank", "what", "value", "unit")
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    sink.add("system", {name: list(column) for name, column in zip(names, columns, strict=True)})


def add_no_steps(path: AnyPath, run: Row | None, end: Row | None, note: Note, sink: Sink) -> None:
    """Say in one sentence, as meta `no_steps`, why the run has no step, and what to do."""
    importers = read_lines(path / files.PROCESSES, note)
    unprobed = [row for row in read_lines(path / files.NOTES, note) if row.get("next")]
    if unprobed:
        why, advice = word(text(unprobed[0].get("why"))), f"{text(unprobed[0].get('next'))} and run it again"
    elif end is None and _state(run or {}) == _KILLED:
        why = f"{_KILLED}, and no training step had ended"
        advice = "run `stepscope run -- COMMAND` again"
    elif end is None:
        perhaps = "" if _state(run or {}) == _RUNNING else ", or stepscope was killed,"
        why = f"the job is still running{perhaps} and no training step has ended yet"
        advice = f"wait for the first step, then run `stepscope report {path}` again"
    elif number(end.get("exit_code")) != 0:
        how = f"signal {end.get('signal')}" if end.get("exit_code") is None else f"exit code {end.get('exit_code')}"
        why = f"the job ended with {how} before its first training step had ended"
        advice = "see what the job printed, fix it and run `stepscope run -- COMMAND` again"
    elif stepless := _likeliest(read_lines(path / "stepless.jsonl", note)):
        why = _without_a_step(stepless)
        advice = (
            "if it trains, `import stepscope` in it, call `stepscope.step()` where a step ends, and run "
            "`stepscope run -- COMMAND` again"
        )
    elif importers:
        why = f"{_processes(importers)}, but none made a training step (a backward and the step of an optimizer)"
        advice = "run the command that trains: `stepscope run -- COMMAND`"
    else:
        why = (
            "no Python process of the job imported torch where stepscope's probe could see it: the job does not use "
            "torch, or its Python ignores PYTHONPATH (options -I, -E or -S, a container, another machine)"
        )
        advice = "see `stepscope doctor`, then run the Python command that trains: `stepscope run -- python TRAIN.py`"
    sink.row("meta", source=str(path), key="no_steps", value=f"No step was recorded: {why}. Next: {advice}.")


def _likeliest(stepless: list[Row]) -> Row | None:
    """Of the processes that did something of a training, the one that did most of it."""
    return max(
        stepless,
        key=lambda row: [_count(row, key) for key in ("optimizer_steps", "backwards", "loaders")],
        default=None,
    )


def _without_a_step(row: Row) -> str:
    """Why a process that did some of what a training does made no step."""
    backwards, steps = _count(row, "backwards"), _count(row, "optimizer_steps")
    who = f"process {number(row.get('pid'))}"
    if steps:
        return f"{who} made {_times(steps, 'optimizer step')} without a backward before: too few for a training"
    if backwards and row.get("has_optimizer") is True:
        return f"{who} made {_times(backwards, 'backward call')}, but no optimizer of torch.optim made a step"
    if backwards:
        return (
            f"{who} made {_times(backwards, 'backward call')}, and no optimizer of torch.optim: too few for a training"
        )
    return (
        f"{who} read batches, but made no backward call and no optimizer step: it evaluates, or trains with "
        "torch.func or torch.autograd.grad, which stepscope cannot see"
    )


def _count(row: Row, key: str) -> int:
    return number(row.get(key)) or 0


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _processes(importers: list[Row]) -> str:
    names: list[str] = []
    for row in importers:
        arguments = row.get("argv")
        shown = arguments[:2] if isinstance(arguments, list) else []
        name = " ".join(map(str, shown)) or f"pid {row.get('pid')}"
        if name not in names:
            names.append(name)
    commands = ", ".join(names[:_COMMANDS_SHOWN]) + (", …" if len(names) > _COMMANDS_SHOWN else "")
    one = len(importers) == 1
    return f"{len(importers)} process{'' if one else 'es'} imported torch ({word(commands)})"


def _others(sample: Row) -> float | None:
    """Cores that processes outside the job used, where all of it was read."""
    whole, cores, job = (sample.get(key) for key in ("system_cpu_ratio", "cores", "job_cpu_ratio"))
    if not (isinstance(whole, float) and isinstance(cores, int) and isinstance(job, float)):
        return None
    return max(0.0, whole * cores - job)


def _measures(sample: Row, ranks: dict[str, int]) -> list[tuple[int | None, str, float, str]]:
    """The rank (None: of the whole machine or job), what was measured, its value and its unit."""
    found: list[tuple[int | None, str, object, str]] = [
        (None, "system CPU", sample.get("system_cpu_ratio"), "ratio"),
        (None, "job CPU", sample.get("job_cpu_ratio"), "cores"),
        (None, "other CPU", _others(sample), "cores"),
        (None, "job memory", sample.get("job_rss_bytes"), "bytes"),
    ]
    for key, what, unit in _OF_RANKS:
        told = sample.get(key)
        found += [(rank, what, told.get(pid), unit) for pid, rank in ranks.items()] if isinstance(told, dict) else []
    waits = sample.get("core_wait_ratio")
    if isinstance(waits, dict):
        others = [wait for pid, wait in waits.items() if pid not in ranks and isinstance(wait, int | float)]
        found += [(None, "helper core wait", float(sum(others)), "cores")] if others else []
    devices = sample.get("gpus")
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, dict):
            name = f"GPU {device.get('index')}"
            found += [(None, f"{name} {what}", device.get(key), unit) for key, what, unit in _GPU]
    return [
        (rank, what, float(value), unit)
        for rank, what, value, unit in found
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
