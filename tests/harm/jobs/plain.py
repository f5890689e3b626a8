"""A plain training loop of 100 steps."""

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loss = torch.zeros(())
for _ in range(5):
    for (batch,) in DataLoader(TensorDataset(torch.randn(80, 8)), 4, shuffle=True):
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
print(loss.item())
