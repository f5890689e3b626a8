"""Runs of real workers, and what is exported of them."""

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from stepscope.collect.launch import launch
from stepscope.run_format.options import RecordingOptions

from ..command import printed
from ..recordings import copy_of

JOB = Path(__file__).parent / "jobs" / "held_worker.py"
STEPS = 12
WINDOW = {"skip_first": 0, "wait": 4, "warmup": 1, "active": 3, "repeat": 1}  # steps 5 to 7


def recorded(folder: Path, method: str, *, trace: bool) -> Path:
    """A run of a job whose workers are started by `method`, in `folder`, which is made."""
    options = RecordingOptions(trace=WINDOW if trace else None, loader="all")

    def record(kept: Path) -> None:
        assert launch([sys.executable, str(JOB), method], str(kept), options).code == 0

    name = f"held-{method}-{'traced' if trace else 'untraced'}"
    return copy_of(name, JOB, Path(__file__), into=folder, record=record)


def exported(run: Path, *words: str) -> list[dict[str, Any]]:
    """The events of the file that is written of a run, its times exact."""
    printed("export", run, "-o", run.with_suffix(".json"), "--force", *words)
    document = json.loads(run.with_suffix(".json").read_text(), parse_float=Decimal)
    return _whole(document["traceEvents"])


def _whole(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Slices that are written as a begin and an end, as one event with a duration, as a viewer takes them."""
    found: list[dict[str, Any]] = []
    opened: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in events:
        track = opened.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            track.append(event)
            found.append(event)
        elif event["ph"] == "E":
            begun = track.pop()
            begun.update(ph="X", dur=event["ts"] - begun["ts"])
        else:
            found.append(event)
    assert not any(opened.values())
    return found
