"""Which DataLoader is which: one LoaderUse for a loader, kept over the epochs, also where it is made anew for each."""

from __future__ import annotations

import weakref

from . import facts
from .guards import own_errors
from .samples import counter
from .sharding import is_iterated, shards_by_worker
from .step_clock.clock import LoaderUse

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Registry"]

_FACTS_LIMIT = 256  # a job that makes a loader a step would fill the disk with descriptions
_UNMARKED_LIMIT = 16  # loaders with such an iterator are of one class, and a job has a few of them at most


class Registry:
    """The loaders of this process; `learn(row)` is told of each new one. No loader is kept alive by it."""

    def __init__(self, learn: Callable[[dict[str, Any]], None]) -> None:
        self._learn = learn
        self._made = 0
        self._uses: dict[int, tuple[Any, LoaderUse]] = {}  # id(loader) -> (weak reference, use)
        self._unmarked: list[tuple[Any, LoaderUse]] = []  # dataset (weak), use
        self._known: list[tuple[Any, Any, dict[str, Any], LoaderUse]] = []  # loader, dataset (weak), description, use

    def use_of(self, loader: Any) -> LoaderUse:
        """The use of a DataLoader. Raises whatever a strange loader's attributes raise."""
        held = self._uses.get(id(loader))
        if held is not None and held[0]() is loader:
            return held[1]
        use = self._same_as_before(loader) or self._new(loader, loader)
        self._uses[id(loader)] = (weakref.ref(loader), use)
        return use

    def known(self, loader: Any) -> int | None:
        """The number of a DataLoader that has a use, None for any other."""
        held = self._uses.get(id(loader))
        return held[1].id if held is not None and held[0]() is loader else None

    def forget(self, loader: Any) -> None:
        """Its settings are others than those it was described with: the next use of a DataLoader is a new one."""
        self._uses.pop(id(loader), None)
        self._known = [known for known in self._known if known[0]() is not loader]

    def unmarked(self, loader: Any, use: LoaderUse) -> None:
        """The iterator that `loader` has just made takes no mark: those inside it, over the same data, are its own."""
        dataset = _weak(getattr(loader, "dataset", None))
        self._unmarked = [known for known in self._unmarked if known[1] is not use][1 - _UNMARKED_LIMIT :]
        self._unmarked.append((dataset, use))

    def identify(self, iterator: Any) -> LoaderUse:
        """The use of an iterator that no `__iter__` of ours has marked; marks it."""
        dataset = getattr(iterator, "_dataset", None)
        inside = [use for known, use in self._unmarked if dataset is not None and known() is dataset]
        use = inside[-1] if inside else self._new(iterator, iterator)
        iterator._stepscope_use = use
        return use

    def _same_as_before(self, loader: Any) -> LoaderUse | None:
        """A loader that is gone, over the same dataset with the same settings: this one goes on in its place."""
        dataset = getattr(loader, "dataset", None)
        description = _described(0, loader)
        for reference, known_dataset, known, use in self._known:
            if reference() is None and known_dataset() is dataset and dict(known, id=0) == description:
                self._known.remove((reference, known_dataset, known, use))
                self._known.append((weakref.ref(loader), known_dataset, known, use))
                return use
        return None

    def _new(self, loader: Any, source: Any) -> LoaderUse:
        identifier, self._made = self._made, self._made + 1
        description = _described(identifier, source)
        use = LoaderUse(identifier, _unset)
        use.count = counter(use, description["batch_size"])
        self._known.append((weakref.ref(loader), _weak(getattr(source, "dataset", None)), description, use))
        if identifier < _FACTS_LIMIT:
            self._learn({**description, "shards": _shards(source)})
        else:
            del self._known[0]
        return use


def _described(identifier: int, source: Any) -> dict[str, Any]:
    """A loader whose attributes raise is still a loader."""
    try:
        return facts.loader(identifier, source)
    except own_errors() as error:
        return {"kind": "loader", "id": identifier, "batch_size": None, "unknown": repr(error)[:200]}


def _shards(source: Any) -> bool | None:
    """Whether the workers share out what they iterate over, None where there is nothing to share out."""
    try:
        dataset = getattr(source, "dataset", None)
        if not getattr(source, "num_workers", 0) or not is_iterated(dataset):
            return None
        return shards_by_worker(dataset, getattr(source, "worker_init_fn", None))
    except own_errors():
        return None  # code that cannot be read


def _unset(batch: Any) -> int:
    raise NotImplementedError


def _weak(thing: Any) -> Callable[[], Any]:
    """A weak reference, or, of a list or another thing that takes none, a reference to nothing."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return _gone


def _gone() -> None:
    return None
