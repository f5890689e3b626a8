"""Two processes average their gradients with one call for each of 200 parameters. `--fixed` has one call for all."""

import torch
import torch.distributed as dist
from torch import nn

from parts import arguments, in_two_processes


def average(model: nn.Module, fixed: bool) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    if fixed:
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        for gradient, part in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))
    else:
        for gradient in gradients:
            dist.all_reduce(gradient)  # planted
            gradient /= dist.get_world_size()


def train(steps: int, fixed: bool) -> None:
    layers = [layer for _ in range(50) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU())]
    model = nn.Sequential(nn.Linear(32, 64), *layers, nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(8192, 32)
    targets = inputs[:, :4].sum(dim=1, keepdim=True)
    for step in range(steps):
        chosen = torch.randint(len(inputs), (256,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        average(model, fixed)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    in_two_processes(train, arguments(__doc__, steps=250))
