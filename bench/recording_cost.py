"""What torch.profiler costs each step, beside what stepscope estimates from the trace alone.

Each job's step is timed bare and under the profiler in turn, with nothing, shapes, memory, stacks and all of these
recorded. The table has the median bare step, the profiler's true cost (traced less bare), stepscope's estimate, and the
estimate over the truth. The estimate is what a verdict takes off: it should be near 1, rather above than below.

    python bench/recording_cost.py            # three jobs, five options, 5 rounds
    python bench/recording_cost.py --rounds 9
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from stepscope.analyses.host.lib.recording_cost import recording_per_step
from stepscope.storage import open_run

OPTIONS = {
    "nothing": {},
    "shapes": {"record_shapes": True},
    "memory": {"profile_memory": True},
    "stacks": {"with_stack": True},
    "all": {"record_shapes": True, "profile_memory": True, "with_stack": True},
}
WARM, TIMED = 3, 8  # steps
Step = Callable[[], None]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm, self.act = nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()

    def scaled(self, values: torch.Tensor) -> torch.Tensor:
        return values * 1.01

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        found = self.act(self.norm(self.linear(values)))
        for _ in range(4):
            found = self.scaled(found)
        return values + found


def small_operators() -> Step:
    """24 blocks of small operators, as a launch-bound model has them."""
    return _training(nn.Sequential(*[Block(32) for _ in range(24)]), torch.randn(8, 32))


def convolutions() -> Step:
    """Operators of a millisecond."""
    layers = [nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for _ in range(6)]
    return _training(nn.Sequential(*layers), torch.randn(8, 16, 32, 32))


def python_metrics() -> Step:
    """A small model, and a loop of Python over single values beside it."""
    train = _training(nn.Sequential(*[Block(32) for _ in range(4)]), torch.randn(8, 32))
    values = torch.randn(150)

    def larger(first: float, second: float) -> float:
        return max(first, second)

    def step() -> None:
        train()
        most = 0.0
        for value in values:
            most = larger(most, value.item())

    return step


def _training(model: nn.Module, inputs: torch.Tensor) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def timed(step: Step, steps: int, *, marked: bool = False) -> float:
    """Median ns of a step."""
    took = []
    for number in range(steps):
        with record_function(f"ProfilerStep#{number}") if marked else torch.no_grad(), torch.enable_grad():
            began = time.perf_counter_ns()
            step()
            took.append(time.perf_counter_ns() - began)
    return median(took)


def measured(step: Step, options: dict[str, bool], folder: Path) -> tuple[float, float, float]:
    """Bare step, true cost and estimated cost, in ns."""
    bare = timed(step, 30)
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        timed(step, WARM)
        traced = timed(step, TIMED, marked=True)
    bare = (bare + timed(step, 30)) / 2
    path = folder / "rank0.pt.trace.json"
    profiler.export_chrome_trace(str(path))
    return bare, traced - bare, recording_per_step(open_run([str(path)]), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'job':<16} {'recorded':<8} {'bare ms':>8} {'true ms':>8} {'estimate':>8} {'over true':>9}")
    for make in (small_operators, convolutions, python_metrics):
        step = make()
        timed(step, 30)
        for name, options in OPTIONS.items():
            with tempfile.TemporaryDirectory() as folder:
                found = [measured(step, options, Path(folder)) for _ in range(rounds)]
            bare, true, estimate = (median(values) / 1e6 for values in zip(*found, strict=True))
            print(f"{make.__name__:<16} {name:<8} {bare:8.2f} {true:8.2f} {estimate:8.2f} {estimate / true:9.2f}")


if __name__ == "__main__":
    main()
