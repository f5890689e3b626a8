"""Two processes average 50 numbers for the log one by one in each step. `--fixed` averages one tensor of them."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import arguments, in_two_processes


def everywhere(measures: dict[str, torch.Tensor], fixed: bool) -> dict[str, float]:
    if fixed:
        stacked = torch.stack(list(measures.values()))
        dist.all_reduce(stacked)
        return dict(zip(measures, (stacked / dist.get_world_size()).tolist(), strict=True))
    found = {}
    for name, value in measures.items():
        dist.all_reduce(value)  # planted
        found[name] = value.item() / dist.get_world_size()
    return found


def train(steps: int, fixed: bool) -> None:
    network = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 50))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8192, 256)
    targets = inputs[:, :50].sin()
    for step in range(steps):
        chosen = torch.randint(len(inputs), (256,))
        optimizer.zero_grad()
        errors = (model(inputs[chosen]) - targets[chosen]).square().mean(dim=0)
        errors.mean().backward()
        optimizer.step()
        logged = everywhere({f"error/{number}": value for number, value in enumerate(errors.detach())}, fixed)
        if step % 50 == 0:
            print(f"step {step} error {max(logged.values()):.3f}")


if __name__ == "__main__":
    in_two_processes(train, arguments(__doc__, steps=250))
