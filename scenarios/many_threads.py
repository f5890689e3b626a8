"""Sixteen threads for convolutions, set for another machine. `--fixed` leaves the number of threads to torch."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures, arguments


def main() -> None:
    options = arguments(__doc__, steps=100)
    torch.manual_seed(0)
    if not options.fixed:
        torch.set_num_threads(16)  # planted
    model, loss_function = Network(32), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (pictures, labels) in enumerate(DataLoader(Pictures(options.steps * 64), batch_size=64)):
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
