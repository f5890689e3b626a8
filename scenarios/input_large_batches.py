"""Workers hand over large pictures as float64. `--fixed` hands over bytes, and training converts them."""

import torch
from torch.utils.data import DataLoader, Dataset

from parts import options, train


class Large(Dataset[tuple[torch.Tensor, int]]):
    """Pictures of 3×`size`×`size`, of one kind of number."""

    def __init__(self, count: int, kind: torch.dtype, size: int = 256) -> None:
        noise = torch.rand((8, 3, size, size), generator=torch.Generator().manual_seed(0))
        self.pixels = (noise * 255).to(kind)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pixels[index % len(self.pixels)], index % 10  # planted


def main() -> None:
    chosen = options(__doc__)
    pictures = Large(chosen.steps * 32, torch.uint8 if chosen.fixed else torch.float64)
    train(DataLoader(pictures, batch_size=32, num_workers=1 if chosen.workers is None else chosen.workers))


if __name__ == "__main__":
    main()
