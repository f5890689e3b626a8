"""The training process makes every batch itself. `--fixed` has one worker do it meanwhile."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Pictures, options, train


class Smoothed(Pictures):
    """Pictures that are smoothed one by one."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        for _ in range(12):
            picture = nn.functional.avg_pool2d(picture, 3, stride=1, padding=1)
        return picture, label


def main() -> None:
    chosen = options(__doc__, batch=32)
    workers = chosen.workers if chosen.workers is not None else 1 if chosen.fixed else 0
    train(DataLoader(Smoothed(chosen.steps * chosen.batch), batch_size=chosen.batch, num_workers=workers))  # planted


if __name__ == "__main__":
    main()
