"""Settings of DataLoaders set from outside, for a trial: the user's code stays as it is.

A loader gets them at the first `__iter__` in which gradients are on: by then every way of making one is over
(subclasses, Lightning and Accelerate, which make the user's loader again, StatefulDataLoader), and torch reads all
settings from the loader's attributes when it makes the iterator. Loaders iterated with gradients off evaluate, and keep
theirs; so do loaders inside workers.

It is all or nothing: a loader that cannot have one of the settings keeps all of its own. Where the iterator cannot be
made, the loader gets its own settings back, the random states too, and is iterated as if nothing had been.

Batches are those of the same samples in the same order for a map-style data set: the sampler is not touched. What the
settings imply: random numbers that the data set draws come from the training process without workers, and from each
worker's own seed with them, so random transforms differ; with workers that stay, later epochs draw no new seed; a
sampler is asked further ahead. An IterableDataset that shards by worker gives its samples in another order.
"""

from __future__ import annotations

import sys

from .guards import own_errors
from .hooks import dressed
from .loader_call_site import MADE
from .sharding import is_iterated, shards_by_worker

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["SETTINGS", "Overrides", "iter_hook"]

SETTINGS = (
    "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "multiprocessing_context", "worker_threads",
)  # fmt: skip
"""What can be set. `worker_threads` is the number that torch.set_num_threads gets in each worker."""

_DONE = "_stepscope_settled"  # attribute of a loader that has had its turn
_PREFETCH = 2  # torch's own default
_NEED_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "worker_threads")


class Refused(Exception):
    """Why a loader cannot have the settings."""


class Overrides:
    """The settings `wanted`; `learn(row)` is told what became of each loader, `known(loader)` gives its number."""

    def __init__(
        self, wanted: dict[str, Any], learn: Callable[[dict[str, Any]], None], known: Callable[[Any], int | None]
    ) -> None:
        self._wanted, self._learn, self._known = wanted, learn, known

    def change(self, loader: Any) -> Override | None:
        """Give `loader` the settings; None: it keeps its own, which is said where it was meant. Never raises."""
        change = Override(loader)
        try:
            if not self._wanted or getattr(loader, _DONE, False) or not _trains():
                return None
            vars(loader)[_DONE] = True
            change.make(_planned(loader, self._wanted))
        except own_errors() as error:
            change.undo()
            change.refused = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        return change

    def tell(self, change: Override) -> None:
        """Write down what became of a loader. Never raises."""
        made = getattr(change.loader, MADE, (None, None, None))
        row = {"kind": "override", "id": self._known(change.loader), "file": made[0], "line": made[1]}
        names = [] if change.refused else [name for name in self._wanted if name in change.after]
        row["set"] = {name: [_plain(change.before[name]), _plain(change.after[name])] for name in names}
        row["wanted"], row["refused"] = self._wanted, change.refused
        self._learn(row)


class Override:
    """What one loader had and has: attributes by setting."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.refused: str | None = None
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}
        self._random: list[tuple[Callable[[Any], Any], Any]] = []

    def make(self, plan: dict[str, Any]) -> None:
        """Set the attributes. Raises what a strange loader makes it raise, when some may be set."""
        torch: Any = sys.modules["torch"]
        self._random = [(torch.set_rng_state, torch.get_rng_state())]
        generator = getattr(self.loader, "generator", None)
        if generator is not None:
            self._random.append((generator.set_state, generator.get_state()))
        for name, value in plan.items():
            self.before[name] = getattr(self.loader, _attribute(name))
            _set(self.loader, name, value)
            self.after[name] = value

    def undo(self) -> None:
        """Give the loader and the random generators back what they had."""
        for name, value in self.before.items():
            _set(self.loader, name, value)
        for give_back, state in self._random:
            give_back(state)
        self.before, self.after = {}, {}


class WorkerThreads:
    """The function that starts a worker: sets the threads for operators, then does what the user's own does."""

    def __init__(self, threads: int, then: Callable[[int], Any] | None) -> None:
        self._threads, self._then = threads, then

    def __call__(self, worker: int) -> None:
        torch: Any = sys.modules["torch"]
        torch.set_num_threads(self._threads)
        if self._then is not None:
            self._then(worker)


def iter_hook(
    overrides: Overrides, original: Callable[[Any], Any], forget: Callable[[Any], None]
) -> Callable[[Any], Any]:
    """`original`, the timed `__iter__` of a loader, which has its new settings from here on.

    `forget(loader)` is called where it turns out that they cannot be used: it is described anew.
    """

    def __iter__(self: Any) -> Any:
        change = overrides.change(self)
        if change is None:
            return original(self)
        try:
            iterator = original(self)
        except own_errors() as error:
            if not change.after:
                raise
            change.undo()
            change.refused = f"the loader could not start with it: {type(error).__name__}: {error}"[:300]
            forget(self)
            iterator = original(self)
        overrides.tell(change)
        return iterator

    return dressed(__iter__, original)


def _trains() -> bool:
    """Whether a loader that is iterated now may train: gradients are on, and this is no worker."""
    torch: Any = sys.modules["torch"]
    return bool(torch.is_grad_enabled()) and torch.utils.data.get_worker_info() is None


def _planned(loader: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """The value of every setting that must change, in the order in which torch takes them. Raises Refused."""
    if getattr(loader, "_iterator", None) is not None:
        raise Refused("its workers, or its state, are those of an iteration before, with gradients off")
    own = loader.num_workers
    workers = wanted.get("num_workers", own)
    plan: dict[str, Any] = {}
    if workers != own:
        _check_workers(loader, own, workers)
        plan["num_workers"] = workers
    if workers:
        plan["prefetch_factor"] = wanted.get("prefetch_factor") or loader.prefetch_factor or _PREFETCH
        for name in ("persistent_workers", "multiprocessing_context"):
            if wanted.get(name) is not None:
                plan[name] = wanted[name]
        if "worker_threads" in wanted:
            plan["worker_threads"] = WorkerThreads(wanted["worker_threads"], loader.worker_init_fn)
    else:
        meant = [name for name in _NEED_WORKERS if wanted.get(name)]
        if meant:
            raise Refused(f"{meant[0]} needs workers, and this loader has none")
        plan.update(prefetch_factor=None, persistent_workers=False)
    if wanted.get("pin_memory") is not None:
        _check_pinning(wanted["pin_memory"])
        plan["pin_memory"] = wanted["pin_memory"]
    return {name: value for name, value in plan.items() if value != getattr(loader, _attribute(name))}


def _check_workers(loader: Any, own: int, workers: int) -> None:
    if workers == 0 and loader.timeout:
        raise Refused("num_workers=0: the loader has a timeout, which needs workers")
    if workers == 0 and loader.worker_init_fn is not None:
        raise Refused("num_workers=0: the loader's worker_init_fn would not be called")
    if workers and own == 0 and _is_daemon():
        raise Refused("this process is a daemon of multiprocessing, which may not start workers")
    if not is_iterated(loader.dataset) or shards_by_worker(loader.dataset, loader.worker_init_fn):
        return
    if own > 1 or workers > 1:
        raise Refused(
            f"num_workers={workers}: {type(loader.dataset).__qualname__} is an IterableDataset that does not ask which "
            "worker it is in (torch.utils.data.get_worker_info), so each worker would give every sample"
        )


def _check_pinning(wanted: bool) -> None:
    cuda: Any = sys.modules["torch"].cuda
    if wanted and not cuda.is_available():
        raise Refused("pin_memory=True: there is no GPU to copy to")


def _is_daemon() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and bool(process.current_process().daemon)


def _attribute(name: str) -> str:
    return "worker_init_fn" if name == "worker_threads" else name


def _set(loader: Any, name: str, value: Any) -> None:
    """As an assignment, but torch takes none of persistent_workers once a loader is made."""
    object.__setattr__(loader, _attribute(name), value)


def _plain(value: Any) -> Any:
    """What JSON can hold: a context of multiprocessing by its method, the threads of workers by their number."""
    if isinstance(value, WorkerThreads):
        return value._threads
    method = getattr(value, "get_start_method", None)
    return method() if method is not None else value if isinstance(value, (bool, int, str)) else None
