"""Nothing is wrong here: a compiled network with batches of one size."""

import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=150)
    torch.manual_seed(0)
    layers = [nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 1)]
    model = nn.Sequential(*layers)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(4096, 512)
    targets = inputs[:, :8].sum(dim=1, keepdim=True)
    for step in range(options.steps):
        chosen = torch.randint(4096, (512,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(compiled(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
