"""A compiled network prints from within its forward pass, which breaks the graph. `--fixed` does not print there."""

import sys

import torch
from torch import nn

from parts import arguments


class Layered(nn.Module):
    """Small layers, one after the other; where `watched`, the largest value of each is printed now and then."""

    def __init__(self, *, watched: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(12))
        self.head, self.watched = nn.Linear(128, 1), watched

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            hidden = torch.relu(layer(hidden))
            if self.watched:
                print(hidden.shape, file=sys.stderr)  # planted
        value: torch.Tensor = self.head(hidden)
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
