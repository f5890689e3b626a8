"""Two processes add up the gradients of four batches and exchange them after each. `--fixed` exchanges the sum only."""

import contextlib

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import arguments, in_two_processes


def train(steps: int, fixed: bool) -> None:
    network = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8192, 256)
    targets = inputs[:, :4].sum(dim=1, keepdim=True)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(4):
            chosen = torch.randint(len(inputs), (32,))
            with model.no_sync() if fixed and part < 3 else contextlib.nullcontext():
                loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen]) / 4
                loss.backward()  # planted
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item() * 4:.3f}")


if __name__ == "__main__":
    in_two_processes(train, arguments(__doc__, steps=120))
