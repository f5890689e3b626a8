"""Nothing is wrong here: the model's own arithmetic takes the time."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss_function = Network(32), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (pictures, labels) in enumerate(DataLoader(Pictures(options.steps * 32), batch_size=32)):
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
