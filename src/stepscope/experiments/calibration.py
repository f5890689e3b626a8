"""Runs the command of a run again for a short while, to measure what training and its loader take apart."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stepscope.collect.calibration import FACT
from stepscope.collect.secrets import HIDDEN
from stepscope.collect.trial import OUTPUT, run_until
from stepscope.core.errors import BadInput
from stepscope.experiments.trials import Watch, facts_of, failure
from stepscope.observe.cores import effective_cores
from stepscope.run_format.files import END, RUN
from stepscope.run_format.options import RecordingOptions

__all__ = ["kept_trial", "make_trial"]

_FOLDER = os.path.join("trials", "calibration")
_LONGEST_S = 600.0  # a job that has not come to the end of its rounds by then is ended
_ONE_CORE = 0.5  # cores more or fewer make another machine of it
_RECORD = "record one: stepscope run -- COMMAND"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What is run again: its words and its folder."""

    command: list[str]
    cwd: str


def kept_trial(path: str) -> str | None:
    """The folder of the trial that was made for a run before; None if there is none."""
    folder = os.path.join(path, _FOLDER)
    return folder if os.path.exists(os.path.join(folder, END)) else None


def make_trial(path: str, watch: Watch, started: Callable[[], None]) -> str:
    """Run the job of the run `path` for a trial, which is kept in that run; gives its folder.

    `started` is called once the job is known to be one that can be run here.

    Raises BadInput where the job cannot be run here, or ends before anything was measured; nothing is kept then.
    """
    job = _job_of(path)
    folder, unfinished = os.path.join(path, _FOLDER), os.path.join(path, f"{_FOLDER}.unfinished")
    started()
    shutil.rmtree(unfinished, ignore_errors=True)
    course = _Course(unfinished, watch(unfinished))
    options = RecordingOptions(loader="all", calibration=True)
    try:
        end = run_until(job.command, unfinished, options, course.is_over, asdict(effective_cores()), job.cwd)
    except OSError as error:
        advice = "copy the run to a folder where you may write"
        raise BadInput(path, f"the trial cannot be kept in it: {error}", next_step=advice) from error
    failed = failure(end, unfinished, _LONGEST_S) or course.failure(unfinished)
    if failed is not None:
        raise BadInput(path, f"a trial of its command: {failed}", next_step="predict without --calibrate")
    os.rename(unfinished, folder)
    return folder


def _job_of(path: str) -> _Job:
    """The job as it was started. Raises BadInput where that is unknown, or where this is another place."""
    try:
        row: dict[str, Any] = json.loads(Path(path, RUN).read_text(encoding="utf-8"))
        job = _Job(command=[str(word) for word in row["command"]], cwd=str(row["cwd"]))
        recorded = float((row.get("cores") or {}).get("effective") or 0.0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = "is no run folder that tells what was run, which --calibrate runs again"
        raise BadInput(path, why, next_step=_RECORD) from error
    if any(HIDDEN in word for word in job.command):
        why = "its command has a secret, which is not kept, so that it cannot be run again"
        raise BadInput(path, why, next_step="predict without --calibrate, or give the secret in the environment")
    if not os.path.isdir(job.cwd):
        raise BadInput(path, f"its command ran in {job.cwd}, which is not here", next_step=_RECORD)
    if shutil.which(job.command[0] if job.command else "", os.F_OK) is None:
        raise BadInput(path, f"its command is not here: {' '.join(job.command)[:200]}", next_step=_RECORD)
    here = effective_cores().effective
    if recorded and abs(here - recorded) > _ONE_CORE:
        why = f"it was recorded with {recorded:g} cores, and here are {here:g}: a trial here says nothing about it"
        raise BadInput(path, why, next_step="run `stepscope predict` with --calibrate where it was recorded")
    return job


class _Course:
    """Watches a trial: its load every second, its pace for the user, and whether it is over."""

    def __init__(self, run_dir: str, tick: Callable[[int], bool]) -> None:
        self._run_dir, self._until = run_dir, time.monotonic() + _LONGEST_S
        self._tick = tick

    def is_over(self) -> bool:
        """Whether all rounds were measured, or the time is over."""
        a_second_later = self._tick(os.getpid())
        if a_second_later and any(fact.get("kind") == FACT and fact.get("over") for fact in facts_of(self._run_dir)):
            return True
        return time.monotonic() > self._until

    def failure(self, run_dir: str) -> str | None:
        """Why nothing was measured; None: something was."""
        facts = list(facts_of(run_dir))
        if any(fact.get("kind") == FACT for fact in facts):
            return None
        if not any(fact.get("kind") == "train_loader" for fact in facts):
            return f"no DataLoader of torch was seen to train (what it printed: {run_dir}/{OUTPUT})"
        return "it ended before a round of the trial was over; let it train for 100 steps or more"
