"""A job that closes all descriptors, as daemons do, and gives their numbers to its own files."""

import os
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)


def epoch(steps=20):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 4)).mean().backward()
        optimizer.step()


epoch()
os.closerange(3, 256)
files = [open(f"checkpoint{number}", "wb+", buffering=0) for number in range(12)]  # noqa: SIM115 - daemon style
print([file.fileno() for file in files])
for file in files:
    file.write(b"CHECKPOINT")
epoch(4000)  # more than fit into the first piece of the steps
end = time.monotonic() + 1.5  # samples of lines are written meanwhile
while time.monotonic() < end:
    epoch()
if os.fork() == 0:
    for file in files:
        file.seek(0)
    print("open in a child", flush=True)
    os._exit(0)
os.wait()
print([os.fstat(file.fileno()).st_size for file in files])
