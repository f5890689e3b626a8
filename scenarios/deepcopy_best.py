"""All weights are copied after each step, in case it is the best one. `--fixed` copies them when the mean of 50 is."""

import copy

import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=600)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8192, 256)
    targets = inputs[:, :4].sum(dim=1, keepdim=True)
    best, best_loss, recent = copy.deepcopy(model.state_dict()), float("inf"), []
    for _ in range(options.steps):
        chosen = torch.randint(len(inputs), (16,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        recent.append(loss.item())
        if options.fixed and len(recent) < 50:
            continue
        candidate = copy.deepcopy(model.state_dict())  # planted
        mean = sum(recent[-50:]) / len(recent[-50:])
        if mean < best_loss:
            best, best_loss = candidate, mean
        if options.fixed:
            recent.clear()
    print(f"loss {best_loss:.3f} with {sum(value.numel() for value in best.values()):,} weights")


if __name__ == "__main__":
    main()
