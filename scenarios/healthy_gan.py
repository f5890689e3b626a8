"""Nothing is wrong here: two networks train against each other, each with an optimizer of its own."""

import torch
from torch import nn

from parts import arguments


def generator() -> nn.Module:
    layers = [nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 784), nn.Tanh()]
    return nn.Sequential(*layers)


def discriminator() -> nn.Module:
    layers = [nn.Linear(784, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 1)]
    return nn.Sequential(*layers)


def main() -> None:
    options = arguments(__doc__, steps=150)
    torch.manual_seed(0)
    making, judging, loss_function = generator(), discriminator(), nn.BCEWithLogitsLoss()
    of_making = torch.optim.Adam(making.parameters(), lr=2e-4, fused=True)
    of_judging = torch.optim.Adam(judging.parameters(), lr=2e-4, fused=True)
    real, yes, no = torch.rand(4096, 784) * 2 - 1, torch.ones(512, 1), torch.zeros(512, 1)
    for step in range(options.steps):
        pictures = real[torch.randint(4096, (512,))]
        made = making(torch.randn(512, 64))
        of_judging.zero_grad()
        loss = loss_function(judging(pictures), yes) + loss_function(judging(made.detach()), no)
        loss.backward()
        of_judging.step()
        of_making.zero_grad()
        loss_function(judging(made), yes).backward()
        of_making.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
