"""Activations of 64 MB, which the C library maps anew in every step. `--fixed` has it keep what is freed."""

import argparse

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    if options.fixed:
        import parts

        parts.keep_memory()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 4096), nn.GELU(), nn.Linear(4096, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(4096, 64), torch.randn(4096, 16)
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
