"""Nothing is wrong here: `nn.LSTM` reads a series; its arithmetic takes the time."""

import torch
from torch import nn

from parts import arguments


class Forecast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(32, 256, num_layers=2, batch_first=True), nn.Linear(256, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.head(self.layer(series)[0][:, -1])
        return value


def main() -> None:
    options = arguments(__doc__, steps=80)
    torch.manual_seed(0)
    model = Forecast()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(2048, 50, 32).cumsum(dim=1) / 10
    targets = inputs[:, -5:].mean(dim=(1, 2)).unsqueeze(1)
    for step in range(options.steps):
        chosen = torch.randint(len(inputs), (64,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
