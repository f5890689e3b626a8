"""A whole training step under torch.compile: graphs, breaks and recompilations are counted."""

import torch
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())


def step(x):
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


compiled = torch.compile(step, backend="eager")
loss = torch.zeros(())
for (batch,) in DataLoader(TensorDataset(torch.randn(160, 8)), 4):
    loss = compiled(batch)
print(sum(counters["graph_break"].values()), dict(counters["stats"]), dict(counters["frames"]), loss.item())
counters.clear()
only = torch.compile(lambda: optimizer.step(), backend="eager")
for (batch,) in DataLoader(TensorDataset(torch.randn(80, 8)), 4):
    model(batch).pow(2).mean().backward()
    only()
print(sum(counters["graph_break"].values()), dict(counters["stats"]))
