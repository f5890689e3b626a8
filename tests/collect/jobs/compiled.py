"""A compiled model and a compiled optimizer step. Usage: compiled.py FILE; writes what the compiler made of them."""

# mypy: disable-error-code="no-untyped-call,no-any-return,attr-defined"

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, TensorDataset

STEPS = 4


def made() -> dict[str, Any]:
    row = {"breaks": sum(counters["graph_break"].values()), **counters["stats"]}
    counters.clear()
    return row


def main() -> None:
    torch.set_num_threads(1)
    rows = TensorDataset(torch.ones(STEPS * 4, 8))
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    quick = torch.compile(model, backend="aot_eager")
    counters.clear()
    for (x,) in DataLoader(rows, 4):
        optimizer.zero_grad()
        quick(x).pow(2).mean().backward()
        optimizer.step()
    told = {"model": made()}

    @torch.compile(backend="eager")
    def update() -> None:
        optimizer.step()

    for (x,) in DataLoader(rows, 4):
        optimizer.zero_grad()
        quick(x).pow(2).mean().backward()
        update()
    told["optimizer"] = made()

    @torch.compile(backend="eager")
    def fetch(batches: Any) -> torch.Tensor:
        (first,), (second,) = next(batches), batches.__next__()
        return first + second

    batches = iter(DataLoader(rows, 4))
    for _ in range(STEPS // 2):
        fetch(batches)
    told["loader"] = made()
    Path(sys.argv[1]).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
