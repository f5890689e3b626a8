"""The sum of a measure for the log keeps the graph of every step: memory grows. `--fixed` adds plain numbers."""

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures, arguments


def main() -> None:
    options = arguments(__doc__, steps=250)
    torch.manual_seed(0)
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mirrored = torch.zeros(())
    for step, (pictures, labels) in enumerate(DataLoader(Pictures(options.steps * 64), batch_size=64)):
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()
        other = loss_function(model(pictures.flip(3)), labels)
        mirrored = mirrored + (other.item() if options.fixed else other)  # planted
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} mirrored {mirrored.item() / (step + 1):.3f}")


if __name__ == "__main__":
    main()
