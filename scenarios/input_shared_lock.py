"""Workers take turns at a lock to read a sample. `--fixed` lets each read for itself."""

import contextlib
import time
from multiprocessing import Lock

import torch
from torch.utils.data import DataLoader

from parts import Pictures, options, train


class Guarded(Pictures):
    """Pictures of a store that answers after 1 ms, and whose reader was thought not to be safe."""

    def __init__(self, count: int, *, guarded: bool) -> None:
        super().__init__(count)
        self.lock = Lock() if guarded else contextlib.nullcontext()

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.lock:  # planted
            time.sleep(0.001)
        return super().__getitem__(index)


def main() -> None:
    chosen = options(__doc__)
    pictures = Guarded(chosen.steps * 32, guarded=not chosen.fixed)
    train(DataLoader(pictures, batch_size=32, num_workers=4 if chosen.workers is None else chosen.workers), width=4)


if __name__ == "__main__":
    main()
