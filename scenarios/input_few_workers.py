"""One worker, whose samples take longer than the training step. `--fixed` has two."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Pictures, options, train

READING = 0.0002  # seconds


class Smoothed(Pictures):
    """Pictures that are read, which takes a moment, and smoothed, which takes a core as long."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(READING)
        picture, label = super().__getitem__(index)
        for _ in range(12):
            picture = nn.functional.avg_pool2d(picture, 3, stride=1, padding=1)
        return picture, label


def main() -> None:
    chosen = options(__doc__, batch=32)
    workers = chosen.workers if chosen.workers is not None else 2 if chosen.fixed else 1
    pictures = Smoothed(chosen.steps * chosen.batch)
    train(DataLoader(pictures, batch_size=chosen.batch, num_workers=workers), width=4)  # planted


if __name__ == "__main__":
    main()
