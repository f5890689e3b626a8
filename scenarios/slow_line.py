"""A metric in pure Python in the middle of the loop. `--fixed` computes it with tensors."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures


def brightness(pictures: torch.Tensor) -> float:
    total = 0.0
    for value in pictures.flatten().tolist():  # planted
        total += value if value > 0.5 else 0.0  # planted
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = 0.0
    for pictures, labels in DataLoader(Pictures(options.steps * 32), batch_size=32):
        seen += float(pictures[pictures > 0.5].sum()) if options.fixed else brightness(pictures)
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()
    print(f"brightness {seen / options.steps:.1f}")


if __name__ == "__main__":
    main()
