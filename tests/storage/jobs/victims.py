"""What a worker may be asked to compute on a rank, at the end of which it is no more. Imported by workers, too."""

import os
import signal
import time
from pathlib import Path

from stepscope.analyses.device.device_time import device_time
from stepscope.core.run import Run


def once(folder: Path, rank: int, run: Run) -> None:
    """Kill the worker that opens a rank, the first time only."""
    device_time(run)
    if _is(rank, run) and not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def always(rank: int | None, run: Run) -> None:
    """Kill every worker that opens a rank (None: any)."""
    if rank is None or _is(rank, run):
        os.kill(os.getpid(), signal.SIGKILL)


def slowly(folder: Path, run: Run) -> None:
    """Say who is at work, then take a minute."""
    (folder / str(os.getpid())).touch()
    time.sleep(60)


def in_which_process(folder: Path, expected: int, run: Run) -> None:
    """Note the process that opened each rank, and the threads that Polars may use there; wait for so many processes."""
    rank = run.optional("processes")["rank"][0]
    (folder / f"{rank} {os.getpid()}").write_text(os.environ.get("POLARS_MAX_THREADS", ""))
    while len({file.name.split()[1] for file in folder.glob("? *")}) < expected:
        time.sleep(0.05)


def wrongly(run: Run) -> None:
    """A mistake in a plugin."""
    raise ZeroDivisionError("a mistake in a plugin")


def _is(rank: int, run: Run) -> bool:
    return bool(run.optional("processes")["rank"].is_in([rank]).any())
