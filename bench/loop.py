"""The training loop that the overhead benchmark times: prints one JSON line about its own steps.

Usage: loop.py tiny|medium --steps N [--traceml]
"""

import argparse
import contextlib
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BEGAN = time.time_ns()
WARM_UP = 50  # allocator, thread pools and lazily created state have settled after far fewer


def network(kind: str) -> tuple[nn.Module, TensorDataset, int]:
    if kind == "tiny":
        return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), data((4096, 16)), 8
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)
    )
    model(torch.zeros(1, 3, 32, 32))
    return model, data((512, 3, 32, 32)), 32


def data(shape: tuple[int, ...]) -> TensorDataset:
    return TensorDataset(torch.rand(shape), torch.randint(0, 4, (shape[0],)))


def around_step(model: nn.Module, traceml: bool) -> Callable[[], AbstractContextManager[None]]:
    if not traceml:
        return contextlib.nullcontext
    import traceml_ai

    traceml_ai.init()
    return lambda: traceml_ai.trace_step(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("tiny", "medium"))
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--traceml", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, dataset, batch = network(options.kind)
    optimizer, loss_function = torch.optim.SGD(model.parameters(), lr=1e-3), nn.CrossEntropyLoss()
    step_context = around_step(model, options.traceml)
    walls: list[int] = []
    cpu = before = 0
    while len(walls) < options.steps + WARM_UP:
        for inputs, labels in DataLoader(dataset, batch_size=batch):
            with step_context():
                optimizer.zero_grad()
                loss_function(model(inputs), labels).backward()
                optimizer.step()
            now = time.perf_counter_ns()
            walls.append(now - before)
            before = now
            if len(walls) == WARM_UP:
                cpu = time.process_time_ns()
            if len(walls) == options.steps + WARM_UP:
                break
    cpu = time.process_time_ns() - cpu
    timed = sorted(walls[WARM_UP:])
    print(json.dumps({
        "began": BEGAN, "p10": timed[len(timed) // 10], "p50": timed[len(timed) // 2],
        "mean": sum(timed) / len(timed), "cpu": cpu / len(timed),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
