"""A run in progress: opened again while it grows, until the job ends or is not heard of any more."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from stepscope.core.errors import StepscopeError
from stepscope.core.run import Run
from stepscope.run_format.files import END

__all__ = ["Following", "State", "state_of"]

State = Literal["running", "ended", "died", "stopped"]
"""How the job stands; `stopped`: it is not known any more, as following it has failed."""

Report = tuple[Run, Mapping[str, object]]

_SILENT = 60  # seconds; the launcher writes once a second, so that after a minute it is gone and not only slow
_LEAST = 5.0  # seconds between two openings: what a person still takes for live
_TRIES = 5  # after the end: a file system over a network may show the last bytes late
_SHARE = 4  # of one core at most a fourth goes into following: the job may need it


def state_of(folder: Path) -> State:
    """How the job of a run folder stands; one that is not heard of counts as died."""
    try:
        end = json.loads((folder / END).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "running" if time.time() - _last_word(folder) < _SILENT else "died"
    return "ended" if end.get("exit_code") == 0 else "died"


def _last_word(folder: Path) -> float:
    """When anything was written last."""
    return max((path.stat().st_mtime for path in folder.glob("*") if path.is_file()), default=0.0)


class Following:
    """The newest report of a run in progress. `version` grows with each."""

    def __init__(self, folder: Path, open_again: Callable[[], Report], first: Report) -> None:
        self._folder = folder
        self._open_again = open_again
        self._newest = first
        self.state: State = state_of(folder)
        self.version = 1

    def run(self) -> Run:
        """The run as it was opened last."""
        return self._newest[0]

    def document(self) -> Mapping[str, object]:
        """The report of that run."""
        return self._newest[1]

    def start(self) -> None:
        """Follow in a thread of its own, until the job has ended."""
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        try:
            self._until_the_end()
        finally:
            if self.state == "running":
                self.state = "stopped"  # by an error that nobody foresaw: nothing is promised any more

    def _until_the_end(self) -> None:
        """The report of the end belongs to the news of it: it is tried again before the news goes out alone."""
        pause, tries = _LEAST, _TRIES
        while self.state == "running":
            time.sleep(pause)
            state = state_of(self._folder)
            began = time.monotonic()
            opened = self._opened()
            if state != "running" and not opened:
                tries -= 1
            if state == "running" or opened or not tries:
                self.state = state
            pause = max(_LEAST, _SHARE * (time.monotonic() - began))

    def _opened(self) -> bool:
        """Whether there is a newer report; what is half written just now is read the next time."""
        try:
            self._newest = self._open_again()
        except (StepscopeError, OSError):
            return False
        self.version += 1
        return True
