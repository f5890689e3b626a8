"""What tuning found last time, for each machine, folder and command: it is tried first, and said."""

import hashlib
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stepscope.experiments.loader import TuneAnswer
from stepscope.experiments.trial_result import Setting
from stepscope.storage.cache import user_cache

__all__ = ["Before", "recall", "remember"]

_NOTHING_FOUND = ("budget", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The settings that won, how many times as fast they were, the data set, and the day (ISO)."""

    setting: Setting
    times_as_fast: float
    dataset: str | None
    day: str


def recall(command: Sequence[str], folder: Path, cores: float) -> Before | None:
    """What won last time; None if nothing did, or nobody knows."""
    path = _file(command, folder, cores)
    try:
        row = json.loads(path.read_text(encoding="utf-8")) if path else None
        if row is None:
            return None
        setting = Setting(tuple((str(name), value) for name, value in row["winner"].items()))
        return Before(
            setting=setting, times_as_fast=float(row["times_as_fast"]), dataset=row["dataset"], day=str(row["day"])
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # not there, or of another version


def remember(result: TuneAnswer, command: Sequence[str], folder: Path, cores: float) -> None:
    """Keep what won; what won before is forgotten where it was found that nothing does.

    A cache that cannot be written keeps nothing.
    """
    path = _file(command, folder, cores)
    if path is None or result.why in _NOTHING_FOUND:
        return
    try:
        ratio = result.row(result.winner).ratio if result.winner else None
        if result.winner is None or ratio is None:
            path.unlink(missing_ok=True)
            return
        row = {
            "winner": dict(result.winner.values),
            "times_as_fast": ratio.estimate,
            "dataset": result.loader.dataset,
            "day": datetime.now(UTC).date().isoformat(),
            "command": list(command),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new")
        unfinished.write_text(json.dumps(row), encoding="utf-8")
        unfinished.replace(path)
    except OSError:
        return


def _file(command: Sequence[str], folder: Path, cores: float) -> Path | None:
    cache = user_cache()
    if cache is None:
        return None
    key = json.dumps([socket.gethostname(), cores, str(folder.absolute()), list(command)])
    return cache.folder / "tuned" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
