"""Workers compute with as many threads each as a larger machine has cores. `--fixed` leaves torch's one for each."""

import torch
from torch.utils.data import DataLoader

from parts import Pictures, options, train

_THREADS = 8


class Warped(Pictures):
    """Large pictures whose colors are warped one by one."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        for _ in range(6):
            picture = picture.mul(0.9).add(0.05).sqrt()  # planted
        return picture[:, ::8, ::8].clone(), label


def _many_threads(worker: int) -> None:
    torch.set_num_threads(_THREADS)


def main() -> None:
    chosen = options(__doc__)
    pictures = Warped(chosen.steps * 8, size=256)
    workers = 2 if chosen.workers is None else chosen.workers
    train(DataLoader(pictures, 8, num_workers=workers, worker_init_fn=None if chosen.fixed else _many_threads))


if __name__ == "__main__":
    main()
