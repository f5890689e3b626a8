"""Whether both runs of a comparison are one recording: the same file, or a copy of it; or of different jobs."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stepscope.compare.run_summary import Side
from stepscope.compare.series import Series
from stepscope.compare.settings import Setting

__all__ = ["is_one_recording", "what_makes_them_different_jobs"]

_SCRIPT = re.compile(r"[^/\s]+\.py\b|(?<=-m )\S+")
_TELLING = 3  # steps: that so many took as long to the nanosecond twice is no chance


def is_one_recording(a: Side, b: Side) -> bool:
    """Whether the paths lead to one place, or all that was measured is equal."""
    if a.path and a.path == b.path and Path(a.path).exists():
        return True
    return _as_long(a.untraced, b.untraced) and _as_long(a.traced, b.traced) and _tells(a) and _listed_alike(a, b)


def what_makes_them_different_jobs(settings: Mapping[str, tuple[Setting, Setting]]) -> tuple[str, ...]:
    """Names of those `settings` that differ, as (A, B), which say that the runs train different things.

    Another number of parameters is another model. A fix may change the script's name or wrap the dataset, not both.
    """
    known = [name for name, sides in settings.items() if None not in sides]
    if "parameters" in known:
        return ("parameters",)
    scripts = [_script(command) for command in settings.get("command", ())]
    return ("command", "data set") if "data set" in known and len(set(scripts)) > 1 else ()


def _script(command: Setting) -> str:
    found = _SCRIPT.search(str(command))
    return found[0] if found else str(command)


def _as_long(a: Series | None, b: Series | None) -> bool:
    if a is None or b is None:
        return a is b
    return np.array_equal(a.times, b.times) and a.phases == b.phases


def _tells(side: Side) -> bool:
    """Whether there is enough to tell: steps that were not made alike."""
    known = [series.times for series in (side.untraced, side.traced) if series is not None]
    return any(len(np.unique(times)) >= _TELLING for times in known)


def _listed_alike(a: Side, b: Side) -> bool:
    if (a.device, a.breakdown, a.settings, [*a.by_name]) != (b.device, b.breakdown, b.settings, [*b.by_name]):
        return False
    return all(a.by_name[what].sums.equals(b.by_name[what].sums) for what in a.by_name)
