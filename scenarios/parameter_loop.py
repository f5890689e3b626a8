"""A moving average of 400 small parameters, updated in a Python loop. `--fixed` updates all of them with one call."""

import torch
from torch import nn

from parts import arguments


class Columns(nn.Module):
    """A table of 200 columns, each with a scale and a shift of its own for eight features."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(8)) for _ in range(200))
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(8)) for _ in range(200))
        self.network = nn.Sequential(nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, table: torch.Tensor) -> torch.Tensor:
        scale, shift = torch.stack(list(self.scales)), torch.stack(list(self.shifts))
        value: torch.Tensor = self.network((table.unsqueeze(2) * scale + shift).flatten(1))
        return value


@torch.no_grad()
def update(average: dict[str, torch.Tensor], model: nn.Module, fixed: bool, decay: float = 0.999) -> None:
    if fixed:
        torch._foreach_lerp_(list(average.values()), list(model.parameters()), 1 - decay)
    else:
        for name, parameter in model.named_parameters():
            average[name] = decay * average[name] + (1 - decay) * parameter  # planted


def main() -> None:
    options = arguments(__doc__, steps=800)
    torch.manual_seed(0)
    model = Columns()
    average = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    table = torch.randn(8192, 200)
    targets = table[:, :10].sum(dim=1, keepdim=True)
    for step in range(options.steps):
        chosen = torch.randint(len(table), (128,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(table[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        update(average, model, options.fixed)
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
