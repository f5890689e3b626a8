"""A transform that is far too slow, in loader workers. `--fixed` uses one that is not, `--without` none."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures


class Augmented(Pictures):
    """Pictures that are smoothed one by one."""

    passes = 8

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture, label = super().__getitem__(index)
        return self.smooth(picture), label

    def smooth(self, picture: torch.Tensor) -> torch.Tensor:
        for _ in range(self.passes):
            picture = nn.functional.avg_pool2d(picture, 3, stride=1, padding=1)  # planted
        return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--without", action="store_true", help="the slow part does nothing")
    options = parser.parse_args()
    torch.manual_seed(0)
    dataset = Augmented(options.steps * 32)
    if options.fixed or options.without:
        dataset.passes = 0 if options.without else 1
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for pictures, labels in DataLoader(dataset, batch_size=32, num_workers=options.workers):  # planted
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
