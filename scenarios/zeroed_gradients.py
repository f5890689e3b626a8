"""Gradients of a large model are filled with zeros before each step. `--fixed` drops them."""

import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=120)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 2048))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.rand(16, 2048)
    for _ in range(options.steps):
        optimizer.zero_grad(set_to_none=options.fixed)  # planted
        nn.functional.mse_loss(model(inputs), inputs).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
