"""A worker's collate function copies pixel by pixel through Python lists. `--fixed` stacks tensors."""

import torch
from torch.utils.data import DataLoader

from parts import Pictures, options, train

Sample = tuple[torch.Tensor, int]


class Collate:
    """Samples to a batch."""

    def __init__(self, slow: bool) -> None:
        self.slow = slow

    def __call__(self, samples: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.tensor([label for _, label in samples])
        if self.slow:
            return torch.tensor([picture.tolist() for picture, _ in samples]), labels  # planted
        return torch.stack([picture for picture, _ in samples]), labels


def main() -> None:
    chosen = options(__doc__)
    loader = DataLoader(
        Pictures(chosen.steps * 64, size=48),
        batch_size=64,
        num_workers=1 if chosen.workers is None else chosen.workers,
        collate_fn=Collate(slow=not chosen.fixed),
    )
    train(loader, width=8)


if __name__ == "__main__":
    main()
