"""Anomaly detection was left on after a search for NaN; the network has many small operators. `--fixed` has it off."""

import torch
from torch import nn

from parts import arguments


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate, self.mix = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        normed = self.norm(hidden)
        return hidden + torch.sigmoid(self.gate(normed)) * torch.tanh(self.mix(normed))


def main() -> None:
    options = arguments(__doc__, steps=200)
    torch.manual_seed(0)
    if not options.fixed:
        torch.autograd.set_detect_anomaly(True)  # planted
    model = nn.Sequential(nn.Linear(32, 64), *(Block(64) for _ in range(40)), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8192, 32)
    targets = inputs.sin().sum(dim=1, keepdim=True)
    for step in range(options.steps):
        chosen = torch.randint(len(inputs), (256,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
