"""The job binds itself to one core, as a script for a shared machine once did. `--fixed` leaves it all cores."""

import os
import sys

if "--fixed" not in sys.argv:  # torch counts the cores when it is imported
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # planted

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures, arguments


def main() -> None:
    options = arguments(__doc__, steps=100)
    torch.manual_seed(0)
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
