"""Numbers of each gradient are read one by one in each step. `--fixed` reads one stacked tensor every 50 steps."""

import torch
from torch import nn

from parts import arguments


def statistics(model: nn.Module) -> dict[str, float]:
    found = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        found[f"{name}/norm"] = parameter.grad.norm().item()  # planted
        found[f"{name}/largest"] = parameter.grad.abs().max().item()  # planted
        found[f"{name}/weight"] = parameter.norm().item()  # planted
    return found


def stacked(model: nn.Module) -> dict[str, float]:
    names = [name for name, _ in model.named_parameters()]
    norms = torch.stack([parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None])
    return dict(zip(names, norms.tolist(), strict=True))


def main() -> None:
    options = arguments(__doc__, steps=1500)
    torch.manual_seed(0)
    layers = [layer for _ in range(30) for layer in (nn.Linear(96, 96), nn.LayerNorm(96), nn.ReLU())]
    model = nn.Sequential(nn.Linear(32, 96), *layers, nn.Linear(96, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(8192, 32)
    targets = inputs[:, :4].sum(dim=1, keepdim=True)
    logged: list[dict[str, float]] = []
    for step in range(options.steps):
        chosen = torch.randint(len(inputs), (64,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        if not options.fixed:
            logged.append(statistics(model))
        elif step % 50 == 0:
            logged.append(stacked(model))
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
