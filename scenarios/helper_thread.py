"""A thread beside the training counts levels of brightness in pure Python. `--fixed` counts with one call of torch."""

import queue
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader

from parts import Network, Pictures, arguments

Seen = queue.Queue[torch.Tensor | None]


def count(seen: Seen, fixed: bool) -> None:
    """How often each of 16 levels of brightness was seen, to notice when the data change."""
    levels = [0] * 16
    while (pictures := seen.get()) is not None:  # planted
        if fixed:
            found = torch.histc(pictures, 16, 0, 1).long().tolist()
            levels = [before + more for before, more in zip(levels, found, strict=True)]
        else:
            for value in pictures.flatten().tolist():  # planted
                levels[int(value * 16)] += 1  # planted
    print(f"{sum(levels):,} pixels")


def main() -> None:
    options = arguments(__doc__, steps=1000)
    torch.manual_seed(0)
    seen: Seen = queue.Queue(maxsize=4)
    thread = threading.Thread(target=count, args=(seen, options.fixed))
    thread.start()
    model, loss_function = Network(8), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for pictures, labels in DataLoader(Pictures(options.steps * 256, size=8), batch_size=256):
        optimizer.zero_grad()
        loss_function(model(pictures), labels).backward()
        optimizer.step()
        seen.put(pictures)
    seen.put(None)
    thread.join()


if __name__ == "__main__":
    main()
