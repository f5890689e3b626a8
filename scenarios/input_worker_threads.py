"""Each worker computes with many threads, on cores that others need. `--fixed` leaves them the one of torch."""

import torch
from torch.utils.data import DataLoader

from parts import Pictures, options, train


class Mixed(Pictures):
    """Pictures whose rows are mixed by a large matrix."""

    def __init__(self, count: int) -> None:
        super().__init__(count, size=64)
        self.matrix = torch.rand((4096, 64), generator=torch.Generator().manual_seed(1)) / 64

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        for _ in range(4):
            mixed = self.matrix @ picture.view(-1, 64).T
            picture = picture + mixed.mean()
        return picture, label


def many_threads(worker: int) -> None:
    torch.set_num_threads(8)


def main() -> None:
    chosen = options(__doc__)
    torch.set_num_threads(1)  # before anything is computed: a pool of threads does not survive the fork of a worker
    loader = DataLoader(
        Mixed(chosen.steps * 16),
        batch_size=16,
        num_workers=2 if chosen.workers is None else chosen.workers,
        worker_init_fn=None if chosen.fixed else many_threads,
    )
    train(loader)


if __name__ == "__main__":
    main()
