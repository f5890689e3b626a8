"""Two processes share the parameters of a small model. Backward collects them again. `--fixed` keeps them."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from parts import arguments, in_two_processes


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = inputs + self.layers(inputs)
        return outputs


def train(steps: int, fixed: bool) -> None:
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(*(Block(256) for _ in range(6)))
    for block in model:
        fully_shard(block, mesh=mesh, reshard_after_forward=not fixed)  # planted
    fully_shard(model, mesh=mesh, reshard_after_forward=not fixed)  # planted
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(4096, 256)
    for step in range(steps):
        chosen = inputs[torch.randint(len(inputs), (64,))]
        loss = nn.functional.mse_loss(model(chosen), chosen.roll(1, dims=1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    in_two_processes(train, arguments(__doc__, steps=100))
