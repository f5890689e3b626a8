"""A checkpoint of a large state every 20 steps, written in the loop. `--fixed` writes one at the end."""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures


def save(model: nn.Module, averages: torch.Tensor, path: Path) -> None:
    torch.save({"model": model.state_dict(), "averages": averages}, path)  # planted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    averages = torch.zeros(60_000_000)
    with tempfile.TemporaryDirectory() as folder:
        for step, (pictures, labels) in enumerate(DataLoader(Pictures(options.steps * 32), batch_size=32)):
            optimizer.zero_grad()
            loss = loss_function(model(pictures), labels)
            loss.backward()
            optimizer.step()
            if step % 20 == 19 and not options.fixed:
                save(model, averages, Path(folder) / "checkpoint.pt")
        save(model, averages, Path(folder) / "last.pt")


if __name__ == "__main__":
    main()
