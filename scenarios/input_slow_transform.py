"""One of two transforms smooths a picture 40 times. `--fixed` smooths it four times, `--without` never."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Compose, Pictures, options, train


class Smooth:
    def __init__(self, passes: int) -> None:
        self.passes = passes

    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        for _ in range(self.passes):
            picture = nn.functional.avg_pool2d(picture, 3, stride=1, padding=1)  # planted
        return picture


class Scale:
    def __call__(self, picture: torch.Tensor) -> torch.Tensor:
        return (picture - 0.5) / 0.25


class Augmented(Pictures):
    """Pictures that pass through two transforms."""

    def __init__(self, count: int, transform: Compose) -> None:
        super().__init__(count)
        self.transform = transform

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        return self.transform(picture), label


def main() -> None:
    chosen = options(__doc__, batch=32, without=True)
    passes = 0 if chosen.without else 4 if chosen.fixed else 40
    pictures = Augmented(chosen.steps * chosen.batch, Compose([Smooth(passes), Scale()]))
    train(DataLoader(pictures, batch_size=chosen.batch, num_workers=1 if chosen.workers is None else chosen.workers))


if __name__ == "__main__":
    main()
