"""A whole validation pass every 20 steps, with gradients recorded. `--fixed` has one every 200, without gradients."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures, arguments


def validate(model: nn.Module, fixed: bool) -> float:
    right = 0
    with torch.set_grad_enabled(not fixed):
        for pictures, labels in DataLoader(Pictures(1024), batch_size=128):
            right += int((model(pictures).argmax(dim=1) == labels).sum())  # planted
    return right / 1024


def main() -> None:
    options = arguments(__doc__, steps=500)
    torch.manual_seed(0)
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    every = 200 if options.fixed else 20
    for step, (pictures, labels) in enumerate(DataLoader(Pictures(options.steps * 32), batch_size=32), 1):
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()
        if step % every == 0:
            print(f"step {step} loss {loss.item():.3f} right {validate(model, options.fixed):.3f}")  # planted


if __name__ == "__main__":
    main()
