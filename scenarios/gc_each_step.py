"""The garbage is collected after every step, beside many Python objects. `--fixed` leaves it to Python."""

import gc
import random

import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=150)
    torch.manual_seed(0)
    chance = random.Random(0)
    samples = [{"words": chance.choices(range(5000), k=12), "label": number % 2} for number in range(40_000)]
    model = nn.Sequential(nn.EmbeddingBag(5000, 512), nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2))
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(options.steps):
        batch = chance.sample(samples, 1024)
        words = torch.tensor([sample["words"] for sample in batch])
        labels = torch.tensor([sample["label"] for sample in batch])
        optimizer.zero_grad()
        loss = loss_function(model(words), labels)
        loss.backward()
        optimizer.step()
        if not options.fixed:
            gc.collect()  # planted
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
