"""A recurrent cell is called for each time step from Python. `--fixed` has `nn.GRU` go over the whole sequence."""

import torch
from torch import nn

from parts import arguments


class Forecast(nn.Module):
    def __init__(self, fixed: bool) -> None:
        super().__init__()
        self.cell = None if fixed else nn.GRUCell(16, 64)
        self.layer = nn.GRU(16, 64, batch_first=True) if fixed else None
        self.head = nn.Linear(64, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        hidden = series.new_zeros(len(series), 64)
        if self.layer is not None:
            hidden = self.layer(series)[1][0]
        elif self.cell is not None:
            for time in range(series.shape[1]):
                hidden = self.cell(series[:, time], hidden)  # planted
        value: torch.Tensor = self.head(hidden)
        return value


def main() -> None:
    options = arguments(__doc__, steps=300)
    torch.manual_seed(0)
    model = Forecast(options.fixed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(2048, 200, 16).cumsum(dim=1) / 10
    targets = inputs[:, -5:].mean(dim=(1, 2)).unsqueeze(1)
    for step in range(options.steps):
        chosen = torch.randint(len(inputs), (8,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
