"""Each sample waits 2 ms, as for a file on a network, and one worker waits for them. `--fixed` has six."""

import time

import torch
from torch.utils.data import DataLoader

from parts import Pictures, options, train


class Remote(Pictures):
    """Pictures that are far away."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)  # planted
        return super().__getitem__(index)


def main() -> None:
    chosen = options(__doc__, batch=32)
    workers = chosen.workers if chosen.workers is not None else 6 if chosen.fixed else 1
    train(DataLoader(Remote(chosen.steps * chosen.batch), batch_size=chosen.batch, num_workers=workers))


if __name__ == "__main__":
    main()
