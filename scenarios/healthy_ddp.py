"""Nothing is wrong here: two processes average their gradients once per step, and compute far longer."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import Network, arguments, in_two_processes


def train(steps: int, _fixed: bool) -> None:
    model, loss_function = DistributedDataParallel(Network(32)), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    pictures, labels = torch.rand(1024, 3, 32, 32), torch.randint(10, (1024,))
    for step in range(steps):
        chosen = torch.randint(1024, (64,))
        optimizer.zero_grad()
        loss = loss_function(model(pictures[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    in_two_processes(train, arguments(__doc__, steps=120))
