"""A cluster of Dask that opens ranks: its workers need stepscope, and the same paths or URLs as here."""

import platform
import re
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from stepscope import __version__
from stepscope.core.errors import BadInput
from stepscope.storage.workers import Crew, Workers

__all__ = ["dask"]

PATIENCE = 10  # seconds; a scheduler answers within one; workers that are being started may take some
_ADDRESS = re.compile(r"(?:[a-z]+://)?[^/\s]+:\d+")
_INSTALL = "pip install 'stepscope[cluster]'"


def dask(address: str) -> Workers:
    """The workers of the Dask scheduler at an address, tcp://host:8786. Raises BadInput without `distributed`."""
    try:
        from distributed import KilledWorker
    except ImportError as error:
        raise BadInput("--dask", "the package distributed is not installed", next_step=_INSTALL) from error

    @contextmanager
    def start(ranks: int, size: int, *, apart: bool) -> Iterator[Crew]:
        yield from _connected(address)

    return Workers(start=start, died=(KilledWorker,))


def _connected(address: str) -> Iterator[Crew]:
    from distributed import Client

    if not _ADDRESS.fullmatch(address):
        raise BadInput(address, "no address of a scheduler", next_step="Write --dask tcp://HOST:8786")
    try:
        client: Any = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise BadInput(address, f"no scheduler of Dask answers there: {error}", next_step=_START) from error
    with client:
        _check_workers(address, client)
        executor = client.get_executor()
        try:
            yield Crew(executor=executor)
        except CancelledError as error:
            why = "the connection to the scheduler was lost"
            raise BadInput(address, why, next_step="See its log, then run the same command again.") from error
        finally:
            executor.shutdown(wait=False)


_START = "Start one: `dask scheduler`, and on each machine `dask worker tcp://SCHEDULER:8786`."


def _check_workers(address: str, client: Any) -> None:
    """Raise BadInput if there is no worker, or one would not compute the same."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as error:
        raise BadInput(address, "the scheduler has no worker", next_step=_START) from error
    try:
        versions = client.run(_versions)
    except ImportError as error:
        why = f"a worker cannot import stepscope ({error})"
        raise BadInput(address, why, next_step="Install it where the workers run: `pip install stepscope`.") from error
    for worker, version in versions.items():
        if version != _versions():
            found, own = (f"stepscope {one} on Python {other}" for one, other in (version, _versions()))
            why = f"worker {worker} has {found}; here it is {own}"
            raise BadInput(address, why, next_step="Install the same version where the workers run.")


def _versions() -> tuple[str, str]:
    return __version__, ".".join(platform.python_version_tuple()[:2])
