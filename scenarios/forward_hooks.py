"""Hooks on every layer compute statistics of its output in each step. `--fixed` computes them every 50 steps."""

from typing import Any

import torch
from torch import nn

from parts import arguments


class Watch:
    """Mean, deviation and share of zeros of what each layer returns."""

    def __init__(self, model: nn.Module, every: int) -> None:
        self.every, self.step, self.seen = every, 0, dict[str, tuple[torch.Tensor, ...]]()
        for name, layer in model.named_modules():
            if not list(layer.children()):
                layer.register_forward_hook(lambda _, __, output, name=name: self.look(name, output))

    def look(self, name: str, output: Any) -> None:
        if self.step % self.every == 0:
            values = output.detach()
            self.seen[name] = (values.mean(), values.std(), (values == 0).float().mean())  # planted


def main() -> None:
    options = arguments(__doc__, steps=300)
    torch.manual_seed(0)
    layers = [layer for _ in range(12) for layer in (nn.Linear(128, 128), nn.LayerNorm(128), nn.ReLU())]
    model = nn.Sequential(nn.Linear(32, 128), *layers, nn.Linear(128, 1))
    watch = Watch(model, every=50 if options.fixed else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(8192, 32)
    targets = inputs[:, :4].sum(dim=1, keepdim=True)
    for watch.step in range(options.steps):
        chosen = torch.randint(len(inputs), (256,))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()
        if watch.step % 50 == 0:
            zeros = max(float(shares[2]) for shares in watch.seen.values())
            print(f"step {watch.step} loss {loss.item():.3f} zeros {zeros:.2f}")


if __name__ == "__main__":
    main()
