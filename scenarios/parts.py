"""What the scenarios train: a data set of small pictures made from noise, and a convolutional network."""

import argparse
import ctypes
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, Dataset

__all__ = ["Compose", "Network", "Pictures", "arguments", "in_two_processes", "keep_memory", "options", "train"]

_TOP_PAD = -2  # a number of malloc.h


def keep_memory() -> None:
    """Have glibc keep up to 2 GB that the process has freed: else each step takes them from the system anew."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TOP_PAD, 2_000_000_000)


keep_memory()  # no scenario but page_faults.py has that problem, too


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """`count` random pictures of 3×`size`×`size` with one of ten labels, kept in memory."""

    def __init__(self, count: int, size: int = 32) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.rand((256, 3, size, size), generator=generator)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pixels[index % len(self.pixels)], index % 10


class Compose:
    """Transforms one after the other, as torchvision has it."""

    def __init__(self, transforms: list[Callable[[torch.Tensor], torch.Tensor]]) -> None:
        self.transforms = transforms

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            picture = transform(picture)
        return picture


class Network(nn.Module):
    """Three convolutions and a linear layer; `width` sets how long a step takes."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classify = nn.Linear(2 * width * 16, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.classify(self.features(pictures).flatten(1))
        return scores


def arguments(page: str | None, *, steps: int) -> argparse.Namespace:
    """What the scenarios of the training loop are called with."""
    parser = argparse.ArgumentParser(description=page)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--fixed", action="store_true")
    return parser.parse_args()


def _process(rank: int, train: Callable[[int, bool], None], meeting: str, options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # two processes on as few as two cores
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    train(options.steps, options.fixed)
    dist.barrier()  # else the first to leave breaks the connection of the other one
    dist.destroy_process_group()
    time.sleep(0.1)  # torch 2.13, bare or not, aborts if gloo's thread still drops the last call when Python ends


def in_two_processes(train: Callable[[int, bool], None], options: argparse.Namespace) -> None:
    """Call `train` with steps and `fixed` in two processes of one group."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_process, (train, str(Path(folder) / "meeting"), options), nprocs=2)


def options(
    page: str | None, *, steps: int = 150, batch: int | None = None, without: bool = False
) -> argparse.Namespace:
    """What the scenarios of the input pipeline are called with; without --workers each has its own number. Those with a
    `batch` take --batch, too, those that can leave the slow part out --without."""
    parser = argparse.ArgumentParser(description=page)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--workers", type=int)
    if batch is not None:
        parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--fixed", action="store_true")
    if without:
        parser.add_argument("--without", action="store_true", help="the slow part does nothing")
    return parser.parse_args()


def train(loader: DataLoader[Any], *, epochs: int = 1, width: int = 16, threads: int | None = 1) -> None:
    """Train on pictures with labels, with one thread for operators: the other cores are for the workers. With None
    torch has as many as it takes by itself, one for each core."""
    torch.manual_seed(0)
    if threads is not None:
        torch.set_num_threads(threads)
    model, loss_function = Network(width), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for pictures, labels in loader:
            optimizer.zero_grad()
            loss = loss_function(model(nn.functional.interpolate(pictures.float(), 32)), labels)
            loss.backward()
            optimizer.step()
