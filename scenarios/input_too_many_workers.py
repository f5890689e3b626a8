"""Four workers beside training that computes in a thread for each core: they take these. `--fixed` has none."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Pictures, options, train


class Smoothed(Pictures):
    """Pictures that are smoothed one by one."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        for _ in range(8):
            picture = nn.functional.avg_pool2d(picture, 3, stride=1, padding=1)
        return picture, label


def main() -> None:
    chosen = options(__doc__)
    workers = chosen.workers if chosen.workers is not None else 0 if chosen.fixed else 4
    train(DataLoader(Smoothed(chosen.steps * 32), batch_size=32, num_workers=workers), threads=None)  # planted


if __name__ == "__main__":
    main()
