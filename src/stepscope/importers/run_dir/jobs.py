"""Which processes of a run are ranks of one job: those of one process group, and no others.

A sweep, a grid search or a restart runs several jobs under one launcher. Each of them has its own rank 0, and averages
over them say nothing of any. A process that is told neither rank nor world size, or that is alone in its world, is a
job of its own; of the others, the first process of each rank is of the first job, the second one (after a restart, or
of the next job of a sweep) of the second.
"""

from collections import Counter
from collections.abc import Sequence

from stepscope.core.importing import Sink
from stepscope.core.paths import AnyPath, is_file
from stepscope.importers.run_dir.process import Process
from stepscope.run_format.files import STEPS

__all__ = ["Job", "jobs_of", "tell_others"]

Job = tuple[Process, ...]
"""The processes of one job, by rank."""

_OTHER_JOB = "other_job"  # key of `meta`: the folder of the first process of a job beside the one that is shown


def jobs_of(processes: Sequence[Process]) -> list[Job]:
    """The jobs, largest first: most ranks, then most recorded steps, then the first that began."""
    jobs: dict[tuple[object, ...], list[Process]] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for process in sorted(processes, key=lambda one: (one.began, one.rank, one.pid)):
        world = process.world_size
        told = process.rank_source != "assumed" or (world or 1) > 1
        key: tuple[object, ...] = ("alone", process.folder.name)
        if told and world != 1:
            which = (world, process.rank)
            key = (world, seen[which])
            seen[which] += 1
        jobs.setdefault(key, []).append(process)
    ordered = sorted(jobs.values(), key=lambda job: (-len(job), -sum(map(_size, job))))
    return [tuple(sorted(job, key=lambda process: process.rank)) for job in ordered]


def tell_others(run: AnyPath, jobs: Sequence[Job], shown: Job, sink: Sink) -> None:
    """Say which processes are of other jobs than the one that is shown, and where each of these can be opened."""
    for job in jobs:
        if job is shown:
            continue
        sink.row("meta", source=str(run), key=_OTHER_JOB, value=str(job[0].folder))
        for process in job:
            sink.skip(str(process.folder), "of another job, which shares no process group with this one: open it alone")


def _size(process: Process) -> int:
    steps = process.folder / STEPS
    return steps.stat().st_size if is_file(steps) else 0
