"""A log of all gradients, as text, after every step. `--fixed` logs the loss alone."""

import argparse
import json
import tempfile
from typing import TextIO

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures


def log(file: TextIO, step: int, loss: float, model: nn.Module) -> None:
    gradients = {name: p.grad.tolist() for name, p in model.named_parameters() if p.grad is not None}  # planted
    file.write(json.dumps({"step": step, "loss": loss, "gradients": gradients}) + "\n")  # planted
    file.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss_function = Network(16), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for step, (pictures, labels) in enumerate(DataLoader(Pictures(options.steps * 32), batch_size=32)):
            optimizer.zero_grad()
            loss = loss_function(model(pictures), labels)
            loss.backward()
            optimizer.step()
            if options.fixed:
                file.write(json.dumps({"step": step, "loss": loss.item()}) + "\n")
            else:
                log(file.file, step, loss.item(), model)


if __name__ == "__main__":
    main()
