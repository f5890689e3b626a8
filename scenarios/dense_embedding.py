"""Adam updates a whole embedding of 300,000 rows for the few in a batch. `--fixed` has sparse gradients."""

import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=80)
    torch.manual_seed(0)
    items = nn.Embedding(300_000, 64, sparse=options.fixed)  # planted
    network = nn.Sequential(nn.Linear(20 * 64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))
    loss_function = nn.BCEWithLogitsLoss()
    rows = torch.optim.SparseAdam(items.parameters()) if options.fixed else torch.optim.Adam(items.parameters())
    optimizer = torch.optim.Adam(network.parameters())
    histories, clicked = torch.randint(300_000, (8192, 20)), torch.randint(2, (8192, 1)).float()
    for step in range(options.steps):
        chosen = torch.randint(len(histories), (512,))
        rows.zero_grad()
        optimizer.zero_grad()
        loss = loss_function(network(items(histories[chosen]).flatten(1)), clicked[chosen])
        loss.backward()
        rows.step()  # planted
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
