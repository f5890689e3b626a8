"""Batches of two: a step is mostly the fixed cost of its operators. `--fixed` trains on 16 samples at a time."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=3200)
    torch.manual_seed(0)
    inputs = torch.randn(options.steps * 2, 32)
    targets = inputs[:, :4].sum(dim=1, keepdim=True)
    size = 16 if options.fixed else 2
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=size, shuffle=True)  # planted
    layers = [layer for _ in range(8) for layer in (nn.Linear(128, 128), nn.LayerNorm(128), nn.ReLU())]
    model = nn.Sequential(nn.Linear(32, 128), *layers, nn.Linear(128, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step, (table, wanted) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(table), wanted)
        loss.backward()
        optimizer.step()
        if step % 400 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
