"""Run folders: what `stepscope run -- COMMAND` writes while the job runs.

A run is readable at every moment: while the job runs, after it was killed, after the disk was full. A record that was
being written is left out; a file that is missing or damaged costs its own tables only; what the job could not record,
it noted, and the notes are shown.

Times: the monotonic clock of each process, brought to the Unix epoch with the pair of readings in the header of each
file. The traces of the traced windows are read with the importer that recognizes them, and get the rank of their
process. Of several jobs in one run (a sweep, a restart) the largest is read, see `jobs`; the folder of a process stands
for the job that it is of.
"""

from collections.abc import Sequence
from functools import partial

from stepscope.core.errors import BadInput
from stepscope.core.importing import Importer, RankInput, Sink
from stepscope.core.paths import AnyPath, is_file, is_folder
from stepscope.importers.run_dir.jobs import jobs_of, tell_others
from stepscope.importers.run_dir.json_files import read_object
from stepscope.importers.run_dir.launcher import (
    add_launcher,
    add_no_steps,
    add_not_recorded,
    add_system,
    check_format,
)
from stepscope.importers.run_dir.loading import note_strangers
from stepscope.importers.run_dir.process import add_process, add_recorded, find_processes, is_process
from stepscope.importers.run_dir.steps import has_steps, step_damage
from stepscope.run_format import files

__all__ = ["IMPORTER", "read_recorded"]


def sniff(path: AnyPath, head: bytes) -> bool:
    """A folder with a run.json, or (the launcher could not write one) with folders of processes; or one of these."""
    if head or not is_folder(path):
        return False
    return is_file(path / files.RUN) or any(path.glob(f"rank-*.pid-*/{files.STEPS}")) or is_process(path)


def read(path: AnyPath, sink: Sink) -> None:
    """Fill the tables of steps, lines, facts and system, and those of the traces. Raises BadInput for no run at all."""
    for part in split(path, sink):
        part.read(sink)


def split(path: AnyPath, sink: Sink) -> Sequence[RankInput]:
    """Fill the tables of the launcher and the system, and return a part for each process. Raises BadInput as `read`."""

    def note(reason: str, count: int) -> None:
        sink.skip(str(path), reason, count)

    if not sniff(path, b""):
        advice = "Record one: `stepscope run -- COMMAND`."
        raise BadInput(path, "not a run folder: it holds no run.json and no process", next_step=advice)
    asked = path.name if is_process(path) else ""
    path = path.parent if asked else path
    run = read_object(path / files.RUN, note)
    check_format(path, run)
    end = read_object(path / files.END, note)
    every = find_processes(path, sink)
    jobs = jobs_of(every)
    processes = next((job for job in jobs if asked in ("", *(process.folder.name for process in job))), ())
    add_launcher(path, run, end, sink)
    tell_others(path, jobs, processes, sink)
    add_system(path, processes, note, sink)
    add_not_recorded(path, every, end, note, sink)
    note_strangers(path, {process.pid for process in every}, note)
    damaged = [f"{process.folder}/{why}" for process in processes if (why := step_damage(process.folder))]
    for place in damaged:
        sink.row("meta", source=str(path), key="damaged", value=place)
    if damaged and not any(has_steps(process.folder) for process in processes):
        sink.row("meta", source=str(path), key="no_steps", value="No step could be read")
    elif not any(has_steps(process.folder) for process in processes):
        add_no_steps(path, run, end, note, sink)
    return [RankInput(path=process.folder, read=partial(add_process, process)) for process in processes]


def read_recorded(folder: AnyPath, sink: Sink) -> bool:
    """Fill the tables of what a process recorded beside its traces; false: the folder is of no process of a run."""
    if not sniff(folder.parent, b""):
        return False
    found = [process for process in find_processes(folder.parent, sink) if process.folder.name == folder.name]
    for process in found:
        add_recorded(process, sink)
    return bool(found)


IMPORTER = Importer(
    sniff=sniff, read=read, clock="the monotonic clock of the job, ns since the Unix epoch", split=split
)
