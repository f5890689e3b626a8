"""Training in many shapes: each scenario is a forked child with its own rank. Usage: scenarios.py NAME..."""

# mypy: disable-error-code="no-untyped-call,no-any-return,attr-defined"

import os
import sys
import threading
from collections import UserDict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Queue
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

STEPS = 6
Pair = namedtuple("Pair", ["x", "y"])


@dataclass
class Fields:
    name: str
    x: torch.Tensor


class Rows(Dataset[torch.Tensor]):
    def __init__(self, length: int = STEPS * 4) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(8)


class Around(IterableDataset[torch.Tensor]):
    """Reads its samples through a loader of its own."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from DataLoader(Rows(), 1)


class Broken(Rows):
    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 4:
            raise ValueError("a broken sample")
        return torch.ones(8)


class Net:
    def __init__(self, kind: type[torch.optim.Optimizer] = torch.optim.SGD) -> None:
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = kind(self.model.parameters(), lr=0.01)  # type: ignore[call-arg]

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x).pow(2).mean()

    def step(self, x: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        self.loss(x).backward()
        self.optimizer.step()


def two_optimizers() -> None:
    first, second = Net(torch.optim.Adam), Net()
    for x in DataLoader(Rows(), 4):
        first.step(x)
        second.step(x)


def reentrant() -> None:
    net = Net()
    for x in DataLoader(Rows(), 4):
        net.optimizer.zero_grad()
        checkpoint(net.loss, x.requires_grad_(), use_reentrant=True).backward()
        net.optimizer.step()


def nested() -> None:
    net = Net()
    for x in DataLoader(Around(), 4):
        net.step(x)


def threaded() -> None:
    net, queue = Net(), Queue[torch.Tensor | None](maxsize=2)

    def read() -> None:
        for x in DataLoader(Rows(), 4):
            queue.put(x)
        queue.put(None)

    threading.Thread(target=read).start()
    while (x := queue.get()) is not None:
        net.step(x)


def generator() -> None:
    net = Net()
    for _ in range(STEPS):
        net.step(torch.ones(4, 8))


def closures() -> None:
    net = Net(torch.optim.LBFGS)
    for x in DataLoader(Rows(), 4):

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            net.optimizer.zero_grad()
            loss = net.loss(x)
            loss.backward()
            return loss

        net.optimizer.step(closure)  # type: ignore[arg-type]


def skipped_steps() -> None:
    """A gradient scaler leaves out every second step."""
    net, scaler = Net(), torch.amp.GradScaler("cpu", init_scale=2.0)
    for number, x in enumerate(DataLoader(Rows(STEPS * 8), 4)):
        net.optimizer.zero_grad()
        loss = net.loss(x) if number % 2 else net.loss(x) * float("inf")
        scaler.scale(loss).backward()
        scaler.step(net.optimizer)
        scaler.update()


def broken_sample() -> None:
    net = Net()
    batches = iter(DataLoader(Broken(), 4))
    for _ in range(STEPS):
        try:
            net.step(next(batches))
        except ValueError as error:
            if str(error) != "a broken sample":
                raise


def persistent() -> None:
    net, loader = Net(), DataLoader(Rows(8), 4, num_workers=1, persistent_workers=True)
    for _ in range(STEPS // 2):
        for x in loader:
            net.step(x)


def loader_anew() -> None:
    """A new loader of the same settings over the same dataset for every epoch."""
    net, rows = Net(), Rows(8)
    for _ in range(STEPS // 2):
        for x in DataLoader(rows, 4):
            net.step(x)


def behind_our_back() -> None:
    net, batches = Net(), DataLoader(Rows(), 4)._get_iterator()
    for x in batches:
        net.step(x)


def pair() -> None:
    net = Net()
    for x, y in zip(DataLoader(Rows(), 4), DataLoader(Rows(STEPS * 8), 8), strict=True):
        net.step(torch.cat((x, y)))


def batches() -> None:
    """One step for each kind of batch; the sizes are 3, then 5."""
    net = Net()
    kinds: list[Any] = [
        lambda x: x,
        lambda x: (x, x),
        lambda x: {"name": "a", "x": x},
        lambda x: Pair(x, x),
        lambda x: Fields("a", x),
        lambda x: UserDict(x=x),
        lambda x: ([{"image": row} for row in x], "a"),
        lambda x: tuple(zip(*[(row, row) for row in x], strict=True)),
        lambda x: "text",
    ]
    for make in kinds:
        loader = DataLoader(Rows(8), batch_sampler=[[0, 1, 2], [3, 4, 5, 6, 7]], collate_fn=_shaped(make))
        for _ in loader:
            net.step(torch.ones(4, 8))


def _shaped(make: Any) -> Any:
    return lambda rows: make(torch.stack(rows))


def known_batch_size() -> None:
    """The batch size is known: a list of images is counted by its length, not by the colors of the first image."""
    net, images = Net(), TensorDataset(torch.ones(10, 3, 2, 2), torch.ones(10))
    for _ in DataLoader(images, 4, collate_fn=lambda rows: tuple(zip(*rows, strict=True))):
        net.step(torch.ones(4, 8))


def main() -> None:
    torch.set_num_threads(1)
    Net().optimizer.zero_grad()  # imports what the children would import each
    for rank, name in enumerate(sys.argv[1:]):
        child = os.fork()
        if child == 0:
            os.environ["RANK"] = str(rank)
            code = 1
            try:
                globals()[name]()
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{name} failed")


if __name__ == "__main__":
    main()
