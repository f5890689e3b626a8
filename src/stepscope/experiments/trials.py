"""Runs the job for one trial: starts it, ends it after enough steps, and reads what it recorded."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.collect.trial import OUTPUT, Ending, run_until
from stepscope.core.errors import BadInput
from stepscope.experiments.trial_result import Setting, TrialResult, trial_result, warm_up
from stepscope.observe.cores import effective_cores
from stepscope.observe.pace import read_pace
from stepscope.run_format.options import RecordingOptions
from stepscope.storage import open_run

__all__ = ["BASE", "Trials", "Watch", "facts_of", "failure", "leave_when_asked"]

BASE = "01-as-it-is"
"""The folder of the first trial, of the script as it is."""

_LINE = 300  # characters of the job's last word


Watch = Callable[[str], Callable[[int], bool]]
"""Of a run folder: what is called often with the job's process id; true once a second, when the load was written."""


class Trials:
    """Each call is a trial of `command` with `steps` steps after its warm-up, recorded below `folder`."""

    def __init__(self, command: Sequence[str], folder: str, steps: int, watch: Watch) -> None:
        self._command, self._folder, self._steps, self._watch = command, folder, steps, watch
        self._made = 0

    def __call__(self, setting: Setting, seconds: float) -> TrialResult:
        self._made += 1
        name = re.sub(r"[^A-Za-z0-9]+", "-", setting.text())
        run_dir = os.path.join(self._folder, f"{self._made:02d}-{name}")
        # recorded in all of them: what that costs, below a hundredth, must not tell one setting from another
        options = RecordingOptions(loader="on", overrides=dict(setting.values))
        enough = _Enough(run_dir, self._steps, seconds, self._watch(run_dir))
        try:
            end = run_until(self._command, run_dir, options, enough, asdict(effective_cores()))
        except OSError as error:
            raise BadInput(
                run_dir, f"cannot be written: {error}", next_step="name another folder with --out"
            ) from error
        failed = failure(end, run_dir, seconds)
        if failed is not None:
            return TrialResult(times=np.empty(0), failed=failed, wall_s=end.wall_s)
        return trial_result(open_run(Path(run_dir), use_cache=False), end.wall_s, simulated=self._made == 1)


def leave_when_asked() -> None:
    """Leave at SIGTERM and SIGHUP as at Ctrl-C, so that the trial under way is ended first."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, _leave)


def failure(end: Ending, run_dir: str, seconds: float) -> str | None:
    """What kept the job of a trial from training within `seconds`; None: it trained."""
    if end.why_not is not None:
        return end.why_not
    if end.code:
        how = f"ended with exit code {end.code}" if end.code > 0 else f"was ended by signal {-end.code}"
        said = _last_line(os.path.join(run_dir, OUTPUT))
        return f"the job {how}{f', its last line: {said}' if said else ''} (all of it: {run_dir}/{OUTPUT})"
    if read_pace(run_dir) is None:
        made = f"made no training step within {seconds:.0f} s" if end.cut else "ended without a training step"
        return f"the job {made} (what it printed: {run_dir}/{OUTPUT})"
    return None


def facts_of(run_dir: str) -> Iterator[dict[str, Any]]:
    """What the processes of a job have written down so far."""
    for path in Path(run_dir).glob("rank-*/facts.jsonl"):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue  # being written


class _Enough:
    """Whether a trial may end: it has its steps, its time is over, or it turns out that it tries nothing.

    Meanwhile the load is written down.
    """

    def __init__(self, run_dir: str, steps: int, seconds: float, tick: Callable[[int], bool]) -> None:
        self._run_dir, self._steps, self._until = run_dir, steps, time.monotonic() + seconds
        self._needed = 0
        self._tick = tick

    def __call__(self) -> bool:
        self._tick(os.getpid())
        if time.monotonic() > self._until:
            return True
        pace = read_pace(self._run_dir)
        if pace is None:
            return False
        if not self._needed:
            facts = list(facts_of(self._run_dir))
            if any(fact.get("refused") for fact in facts):
                return True
            loaders = [fact for fact in facts if fact.get("kind") == "loader"]
            warm = [warm_up(fact.get("num_workers") or 0, fact.get("prefetch_factor")) for fact in loaders]
            self._needed = max(warm, default=warm_up(0, None)) + self._steps
        return pace.step + 1 >= self._needed


def _last_line(path: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[-_LINE:] for line in reversed(lines) if line.strip()), "")


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)
