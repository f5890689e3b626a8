"""Loads batches with torchdata's StatefulDataLoader, as loading.py does with torch's. Usage: stateful.py NAME...

A line has the name of the way and a hash of all batches, of the loader's states, and of those of all random generators.
"""

# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-return,no-untyped-call"

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import torch
from loading import BATCH, LASTING, LENGTH, Broken, Deadly, Pictures, Rows, Stream, load, training
from torchdata.stateful_dataloader import StatefulDataLoader


class Counted(Stream):
    """A stream that can go on where it was."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = torch.utils.data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        rows = [Rows()[index] for index in range(start, LENGTH, step)]
        while self.at < len(rows):
            self.at += 1
            yield rows[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Interrupted(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 13:
            time.sleep(1.5)  # the first step is to be over
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(60)
        return super().__getitem__(index)


def keep(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a loader, after it has been hashed."""
    training.seen.update(repr(plain(state)).encode())
    return state


def plain(state: Any) -> Any:
    """Numbers of tensors in their place: their pickles and their printed forms do not tell all, or more."""
    if isinstance(state, torch.Tensor):
        return state.tolist()
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    return [plain(value) for value in state] if isinstance(state, (list, tuple)) else state


def two_epochs(dataset: Any, **options: Any) -> None:
    """Asks for the state after each epoch, too."""
    loader: Any = StatefulDataLoader(dataset, BATCH, **options)
    for _ in range(2):
        training.epoch(loader)
        keep(loader.state_dict())


def resumed(dataset: Any, **options: Any) -> None:
    """Stops in the middle of an epoch; another loader goes on, for the rest of it and one more."""
    loader: Any = StatefulDataLoader(dataset, BATCH, **options)
    training.epoch(loader, 3)
    state = keep(loader.state_dict())
    loader = StatefulDataLoader(dataset, BATCH, **options)
    loader.load_state_dict(state)
    for _ in range(2):
        training.epoch(loader)
    keep(loader.state_dict())


def asked_first(**options: Any) -> None:
    """The state is asked for before the first batch: that makes the iterator."""
    loader: Any = StatefulDataLoader(Rows(), BATCH, **options)
    keep(loader.state_dict())
    for _ in range(2):
        training.epoch(loader)


def once(dataset: Any, batches: int | None = None) -> None:
    training.epoch(StatefulDataLoader(dataset, BATCH, num_workers=2), batches)


WAYS = {
    "map": lambda: two_epochs(Rows(), num_workers=2, shuffle=True),
    "lasting": lambda: two_epochs(Rows(), **LASTING, shuffle=True),
    "spawn": lambda: two_epochs(Rows(), **LASTING, multiprocessing_context="spawn"),
    "iterable": lambda: two_epochs(Stream(), num_workers=2),
    "counted": lambda: two_epochs(Counted(), num_workers=2),
    "transforms": lambda: two_epochs(Pictures(), num_workers=2),
    "resumed": lambda: resumed(Rows(), num_workers=2, shuffle=True),
    "resumed-lasting": lambda: resumed(Rows(), **LASTING),
    "resumed-counted": lambda: resumed(Counted(), num_workers=2),
    "resumed-iterable": lambda: resumed(Stream(), num_workers=2),
    "single": lambda: two_epochs(Rows(), shuffle=True),
    "single-counted": lambda: two_epochs(Counted()),
    "single-resumed": lambda: resumed(Rows(), shuffle=True),
    "asked-first": lambda: asked_first(num_workers=2),
    "single-asked-first": lambda: asked_first(),
    "any-order": lambda: two_epochs(Rows(), num_workers=1, in_order=False),
    "break": lambda: once(Rows(), 2),
    "broken": lambda: once(Broken()),
    "deadly": lambda: once(Deadly()),
    "interrupted": lambda: once(Interrupted()),
}

if __name__ == "__main__":
    load(WAYS)
