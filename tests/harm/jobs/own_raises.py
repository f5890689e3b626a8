"""Exceptions and warnings from inside what is recorded. argv: step, backward or fetch, or warn."""

import sys
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

kind = sys.argv[1]


class Samples(Dataset):
    def __len__(self):
        return 80

    def __getitem__(self, index):
        if kind == "fetch" and index == 60:
            raise ValueError("broken sample")
        return torch.ones(4)


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("broken backward")


class Own(torch.optim.SGD):
    steps = 0

    def step(self, closure=None):
        self.steps += 1
        if kind == "warn":
            warnings.warn("call this less often", stacklevel=3)
        if kind == "step" and self.steps == 15:
            raise ValueError("broken step")
        return super().step(closure)


torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = Own(model.parameters(), 1e-3)
for number, batch in enumerate(DataLoader(Samples(), 4)):
    optimizer.zero_grad()
    out = model(batch)
    if kind == "backward" and number == 12:
        out = Broken.apply(out)
    out.mean().backward()
    if number % 2:
        optimizer.step()
    else:
        optimizer.step()
