"""Annotations that last for several steps."""

import torch
from torch.profiler import record_function

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
loss = torch.zeros(())
for epoch in range(20):
    scopes = [record_function(f"epoch {epoch} {number}") for number in range(50)]
    for scope in scopes:
        scope.__enter__()
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
    for scope in reversed(scopes):
        scope.__exit__(None, None, None)
print(loss.item())
