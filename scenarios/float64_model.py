"""The model is in double precision because numpy's data are. `--fixed` turns the data to single precision once."""

import numpy as np
import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=120)
    torch.manual_seed(0)
    table = np.random.default_rng(0).standard_normal((8192, 256))
    inputs, targets = torch.from_numpy(table), torch.from_numpy(np.sin(table[:, :4]).sum(axis=1, keepdims=True))
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))
    if options.fixed:
        inputs, targets = inputs.float(), targets.float()
    else:
        model = model.double()  # planted
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step in range(options.steps):
        chosen = torch.randint(len(inputs), (512,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
