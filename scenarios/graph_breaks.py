"""A compiled network prints from within its forward pass, which breaks the graph. `--fixed` does not print there."""

import sys

import torch
from torch import nn

from parts import arguments


def block() -> nn.Module:
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.ReLU())))


class Layered(nn.Module):
    """Two blocks of small layers; where `watched`, the size of what the first one gives is printed."""

    def __init__(self, *, watched: bool) -> None:
        super().__init__()
        self.first, self.second, self.head = block(), block(), nn.Linear(128, 1)
        self.watched = watched

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = self.first(hidden)
        if self.watched:
            print(hidden.mean(), file=sys.stderr)  # planted
        value: torch.Tensor = self.head(self.second(hidden))
        return value


def main() -> None:
    options = arguments(__doc__, steps=300)
    torch.manual_seed(0)
    model = torch.compile(Layered(watched=not options.fixed))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(4096, 128)
    targets = inputs[:, :8].sum(dim=1, keepdim=True)
    for step in range(options.steps):
        chosen = torch.randint(4096, (64,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
