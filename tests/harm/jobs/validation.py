"""A fit as frameworks have it: each epoch a validation loader with workers, whose iterator goes with its function.

An iterator that dies in a collection instead joins its workers there, for up to five seconds each.
"""

import time
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

LONG_S = 4.0  # a validation takes a fraction of it, on a busy machine too


class Loop:
    """Trainer, loop and model know one another."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.trainer = self
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
        self.long = 0

    def fit(self, epochs: int) -> None:
        for _ in range(epochs):
            self.train()
            begin = time.monotonic()
            with torch.no_grad():
                self.validate()
            self.long += time.monotonic() - begin > LONG_S

    def train(self) -> None:
        for (batch,) in DataLoader(TensorDataset(torch.ones(160, 8)), 4):
            self.optimizer.zero_grad()
            self.step(batch).backward()
            self.optimizer.step()

    def step(self, batch: torch.Tensor) -> Any:
        return self.model(batch).pow(2).mean()

    def validate(self) -> None:
        batches = iter(DataLoader(TensorDataset(torch.ones(64, 8)), 4, num_workers=2))
        for number, (batch,) in enumerate(batches):
            self.step(batch)
            time.sleep(0.005)
            if number == 10:  # sanity checks and limits end before the loader does
                break


torch.set_num_threads(1)
loop = Loop()
loop.fit(4)
print("validations that took long:", loop.long, "loss", loop.step(torch.ones(1, 8)).item())
