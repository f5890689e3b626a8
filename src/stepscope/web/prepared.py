"""The tracks of a run are prepared once, not once for each request that comes meanwhile."""

from threading import Lock

from stepscope.core.run import Run
from stepscope.timeline import tracks

__all__ = ["prepared"]

_PREPARING = Lock()


def prepared(run: Run) -> Run:
    """The run, when its tracks are ready."""
    with _PREPARING:
        tracks(run)
    return run
