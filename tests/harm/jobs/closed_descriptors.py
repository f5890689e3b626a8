"""Closes all descriptors between two epochs, as daemons do, and then keeps files of its own open under their numbers.

Argument: the number of workers. The files are checked at the end: each must hold what was written to it, and be open.
"""

import os
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data, workers = TensorDataset(torch.arange(2400.0).reshape(-1, 3)), int(sys.argv[1])
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)

    def epoch() -> None:
        for (batch,) in DataLoader(data, 4, num_workers=workers):
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()

    epoch()
    os.closerange(3, 256)
    files = [open(f"checkpoint-{number}", "wb+", buffering=0) for number in range(12)]  # noqa: SIM115  # open until the end
    for file in files:
        file.write(b"CHECKPOINT")
    for _ in range(4):
        epoch()
    for file in files:
        file.seek(0)
        print(file.name, file.read())
    print(model.weight.tolist())


if __name__ == "__main__":
    main()
