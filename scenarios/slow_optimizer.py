"""2,500 small parameters, updated one by one by Adam. `--fixed` uses its fused kernel."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures


class ManySmall(nn.Module):
    """A network with a bias for each of 2,500 groups."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network(16)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(4)) for _ in range(2500))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.network(pictures) + torch.cat(list(self.biases)).mean()
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss_function = ManySmall(), nn.CrossEntropyLoss()
    how = {"fused": True} if options.fixed else {"foreach": False}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **how)
    for pictures, labels in DataLoader(Pictures(options.steps * 32), batch_size=32):
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()  # planted


if __name__ == "__main__":
    main()
