"""The texts of a batch are parsed again in each step. `--fixed` parses each of them once before the training."""

import json
import random
import re

import torch
from torch import nn

from parts import arguments

WORD = re.compile(r"[a-z]+|\d+")


def features(line: str) -> list[int]:
    record = json.loads(line)  # planted
    words = WORD.findall(record["text"].lower())  # planted
    return [sum(word.encode()) % 4096 for word in words][:32]  # planted


def main() -> None:
    options = arguments(__doc__, steps=600)
    torch.manual_seed(0)
    chance = random.Random(0)
    texts = [" ".join(f"Word{chance.randrange(900)}" for _ in range(20)) for _ in range(2000)]
    lines = [json.dumps({"text": text, "id": number}) for number, text in enumerate(texts)]
    labels = torch.tensor([number % 2 for number in range(len(lines))])
    parsed = [features(line) for line in lines] if options.fixed else []
    model = nn.Sequential(nn.EmbeddingBag(4096, 128), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 2))
    loss_function = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(options.steps):
        chosen = chance.sample(range(len(lines)), 256)
        words = [parsed[number] if options.fixed else features(lines[number]) for number in chosen]
        optimizer.zero_grad()
        loss = loss_function(model(torch.tensor(words)), labels[chosen])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
