"""Large matrix products on one thread, as a shared login node once needed it. `--fixed` leaves the threads to torch."""

import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=80)
    torch.manual_seed(0)
    if not options.fixed:
        torch.set_num_threads(1)  # planted
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(8192, 512), torch.randint(10, (8192,))
    for step in range(options.steps):
        chosen = torch.randint(len(inputs), (512,))
        optimizer.zero_grad()
        loss = loss_function(model(inputs[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
