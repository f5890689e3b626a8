"""Every eighth batch has a sample that takes long, and little is made ahead. `--fixed` makes more ahead."""

import time

import torch
from torch.utils.data import DataLoader

from parts import Pictures, options, train


class Uneven(Pictures):
    """Pictures of which a few are slow to come."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index % 256 == 7:
            time.sleep(0.12)  # planted
        return super().__getitem__(index)


def main() -> None:
    chosen = options(__doc__, steps=200)
    workers = 2 if chosen.workers is None else chosen.workers
    ahead = None if workers == 0 else 8 if chosen.fixed else 1
    pictures = Uneven(chosen.steps * 32)
    train(DataLoader(pictures, batch_size=32, num_workers=workers, prefetch_factor=ahead), width=4)


if __name__ == "__main__":
    main()
