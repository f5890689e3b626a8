"""A collate function that copies pixel by pixel through Python lists. `--fixed` stacks tensors."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, default_collate

from parts import Network, Pictures

Sample = tuple[torch.Tensor, int]


def collate(samples: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [picture.tolist() for picture, _ in samples]  # planted
    labels = [label for _, label in samples]
    return torch.tensor(rows), torch.tensor(labels)  # planted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Pictures(options.steps * 32),
        batch_size=32,
        num_workers=options.workers,
        collate_fn=default_collate if options.fixed else collate,
    )
    for pictures, labels in loader:
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
