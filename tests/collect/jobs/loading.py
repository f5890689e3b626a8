"""Loads batches in many ways, trains on each, and prints what came. Usage: loading.py NAME...

A line has the name of the way and a hash of all batches, of their order, and of the states of all random generators.
"""

# mypy: disable-error-code="no-untyped-call,no-any-return,attr-defined"

import hashlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset

LENGTH, BATCH = 24, 4
_file = io.BytesIO()
np.save(_file, np.ones(100_000))
PICTURE = _file.getvalue()


class Rows(Dataset[torch.Tensor]):
    """Samples with some of every random generator in them."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> torch.Tensor:
        noise = [random.random(), float(np.random.rand()), float(torch.rand(()))]
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        return torch.tensor([float(index), *noise])


class Inline(Rows):
    """A slow loop between quick lines."""

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = super().__getitem__(index)
        end = time.thread_time() + 0.03
        while time.thread_time() < end:  # the slow line
            pass
        return sample + 1


class Others(Rows):
    """The same under another name."""


class Batches(Rows):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in indices]


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = torch.utils.data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        for index in range(start, LENGTH, step):
            yield Rows()[index]


class Chain:
    """As torchvision's Compose."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, sample: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            sample = transform(sample)
        return sample


class Decoded:
    """Reads its file when it is asked for pixels, as Pillow does."""

    def __call__(self, sample: torch.Tensor) -> torch.Tensor:
        return sample + float(np.load(io.BytesIO(PICTURE)).sum())


class Scaled(torch.nn.Module):
    def forward(self, sample: torch.Tensor) -> torch.Tensor:
        return sample * float(torch.rand(()))


class Pictures(Rows):
    def __init__(self) -> None:
        self.transform = Chain([Decoded(), Scaled(), shifted])

    def __getitem__(self, index: int) -> torch.Tensor:
        with torch.profiler.record_function("augment"):
            return self.transform(super().__getitem__(index))


def shifted(sample: torch.Tensor) -> torch.Tensor:
    return sample + 1


class Broken(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 13:
            raise ValueError("a broken sample")
        return super().__getitem__(index)


class Deadly(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 13:
            time.sleep(1.5)  # the first step is to be over
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Interrupted(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 13:
            time.sleep(1.5)
            os.kill(os.getppid(), signal.SIGINT)
            time.sleep(60)
        return super().__getitem__(index)


def seed_more(worker: int) -> None:
    random.seed(worker)


class Training:
    """Consumes batches, and hashes them."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.seen = hashlib.sha256()

    def restart(self) -> None:
        """All generators, the model and the hash from the beginning."""
        torch.manual_seed(1)
        random.seed(2)
        np.random.seed(3)
        self.__init__()  # type: ignore[misc]

    def epoch(self, loader: DataLoader[Any], batches: int | None = None) -> None:
        for number, batch in enumerate(loader):
            self.seen.update(batch.numpy().tobytes())
            self.optimizer.zero_grad()
            self.model(batch).pow(2).mean().backward()
            self.optimizer.step()
            if number + 1 == batches:
                break

    def result(self) -> str:
        state = (torch.get_rng_state().numpy().tobytes(), random.getstate(), np.random.get_state())
        self.seen.update(repr(state).encode())
        return self.seen.hexdigest()[:16]


training = Training()


def load(ways: Mapping[str, Callable[[], None]]) -> None:
    """Train in the ways that the command line names, each from the same state."""
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        training.restart()
        ways[name]()
        print(name, training.result(), flush=True)


def two_epochs(dataset: Dataset[Any], **options: Any) -> None:
    loader = DataLoader(dataset, BATCH, **options)
    for _ in range(2):
        training.epoch(loader)


def no_loader() -> None:
    """Batches come from a generator."""
    rows = [Rows()[index] for index in range(LENGTH)]
    for _ in range(2):
        training.epoch(torch.stack(rows[at : at + BATCH]) for at in range(0, LENGTH, BATCH))  # type: ignore[arg-type]


def train_and_validate(**options: Any) -> None:
    train, validate = DataLoader(Rows(), BATCH, shuffle=True, **options), DataLoader(Others(), BATCH, **options)
    for _ in range(2):
        training.epoch(train)
        with torch.no_grad():
            for batch in validate:
                training.seen.update(batch.numpy().tobytes())


LASTING = {"num_workers": 2, "persistent_workers": True}
WAYS = {
    "map": lambda: two_epochs(Rows(), num_workers=2, shuffle=True),
    "lasting": lambda: two_epochs(Rows(), **LASTING, shuffle=True),
    "spawn": lambda: two_epochs(Rows(), **LASTING, multiprocessing_context="spawn"),
    "forkserver": lambda: two_epochs(Rows(), **LASTING, multiprocessing_context="forkserver"),
    "inline": lambda: two_epochs(Inline(), num_workers=2),
    "inline-spawn": lambda: two_epochs(Inline(), **LASTING, multiprocessing_context="spawn"),
    "iterable": lambda: two_epochs(Stream(), num_workers=2),
    "batched": lambda: two_epochs(Batches(), num_workers=2),
    "nested": lambda: two_epochs(Subset(ConcatDataset([Rows(), Others()]), range(20, 28)), num_workers=2),
    "transforms": lambda: two_epochs(Pictures(), num_workers=2),
    "single-transforms": lambda: two_epochs(Subset(Pictures(), range(8))),
    "init": lambda: two_epochs(Rows(), num_workers=2, worker_init_fn=seed_more),
    "single": lambda: two_epochs(Rows(), shuffle=True),
    "single-iterable": lambda: two_epochs(Stream()),
    "any-order": lambda: two_epochs(Rows(), num_workers=1, in_order=False),
    "no-batches": lambda: training.epoch(DataLoader(Rows(), batch_size=None, num_workers=1)),
    "validation": lambda: train_and_validate(num_workers=1),
    "break": lambda: training.epoch(DataLoader(Rows(), BATCH, num_workers=2), 2),
    "no-loader": no_loader,
    "broken": lambda: training.epoch(DataLoader(Broken(), BATCH, num_workers=2)),
    "single-broken": lambda: training.epoch(DataLoader(Broken(), BATCH)),
    "deadly": lambda: training.epoch(DataLoader(Deadly(), BATCH, num_workers=2)),
    "interrupted": lambda: training.epoch(DataLoader(Interrupted(), BATCH, num_workers=2)),
}

if __name__ == "__main__":
    load(WAYS)
