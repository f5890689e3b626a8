"""Nothing is wrong here: one worker loads pictures faster than the network trains on them."""

import torch
from torch.utils.data import DataLoader

from parts import Pictures, options, train


class Flipped(Pictures):
    """Pictures of which every second one is mirrored."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        return (picture.flip(2) if index % 2 else picture), label


def main() -> None:
    chosen = options(__doc__, steps=200)
    workers = 1 if chosen.workers is None else chosen.workers
    pictures = Flipped(chosen.steps * 32)
    train(DataLoader(pictures, batch_size=32, num_workers=workers, persistent_workers=True), width=32, threads=None)


if __name__ == "__main__":
    main()
