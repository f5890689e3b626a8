"""What a job sees of the end of its locals and of the cyclic collector: in training and in a loader's worker.

Prints only what has to be the same in every run; writes its own peak of memory.
"""

# mypy: disable-error-code="no-untyped-call"

import gc
import os
import resource
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

SECONDS = float(sys.argv[1])
MAIN = threading.get_ident()
FILE = Path("written.txt")
found = {"late": 0, "elsewhere": 0, "unwritten": 0, "on": 0, "off": 0}


class Local:
    def __init__(self) -> None:
        self.made_in = threading.get_ident()

    def __del__(self) -> None:
        if threading.get_ident() != self.made_in:
            found["elsewhere"] += 1


def with_local() -> "weakref.ref[Local]":
    local = Local()
    seen = weakref.ref(local)
    for _ in range(200):
        pass
    return seen


def with_cycle() -> None:
    local: Any = Local()
    local.itself = local  # ends in a collection


def save(text: str) -> None:
    file = FILE.open("w")  # closed where it goes out of scope
    file.write(text)
    for _ in range(300):
        pass


def look(rounds: int) -> None:
    for _ in range(rounds):
        if with_local()() is not None:
            found["late"] += 1
    save(str(rounds))
    if FILE.read_text() != str(rounds):
        found["unwritten"] += 1


class Looking(Dataset[torch.Tensor]):
    """Each sample says whether a local of the worker outlived its function."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        late = 0
        end = time.monotonic() + SECONDS / 64
        while time.monotonic() < end:
            late += with_local()() is not None
        return torch.tensor([float(late), found["elsewhere"]])


def forward(model: torch.nn.Linear, batch: torch.Tensor) -> Any:
    activations = torch.empty(2048, 1024).fill_(batch.mean().item())  # 8 MB
    return model(activations).pow(2).mean()


torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(1024, 8)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
gc.collect()
gc.disable()
loss: Any = None
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    for (batch,) in DataLoader(TensorDataset(torch.ones(16, 4)), 4):
        optimizer.zero_grad()
        loss = forward(model, batch)
        loss.backward()
        optimizer.step()
        look(200)
worker = torch.zeros(2)
for batch in DataLoader(Looking(), 8, num_workers=1, worker_init_fn=lambda _: gc.disable()):
    worker += batch.sum(0)
    optimizer.zero_grad()
    forward(model, batch).backward()
    optimizer.step()
gc.enable()
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    with_cycle()
    found["off"] += not gc.isenabled()
    gc.disable()
    for _ in range(200):
        pass
    found["on"] += gc.isenabled()
    gc.enable()
for _ in range(5):
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 9)
    found["off"] += os.waitpid(child, 0)[1] != 0
print(found, "in the worker", worker.tolist(), "collector on", gc.isenabled())
FILE.unlink()
Path("peak.kb").write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
