"""Nothing is wrong here: the gradients of four batches are added up before the optimizer steps."""

import torch
from torch import nn

from parts import Network, arguments


def main() -> None:
    options = arguments(__doc__, steps=100)
    torch.manual_seed(0)
    model, loss_function = Network(32), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    pictures, labels = torch.rand(1024, 3, 32, 32), torch.randint(10, (1024,))
    for step in range(options.steps):
        optimizer.zero_grad()
        for _ in range(4):
            chosen = torch.randint(1024, (32,))
            loss = loss_function(model(pictures[chosen]), labels[chosen]) / 4
            loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
