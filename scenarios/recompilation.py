"""A model compiled for fixed shapes is compiled again for each length of texts. `--fixed` compiles for any length."""

import os

import torch
from torch import nn

from parts import arguments

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"  # each run compiles as much as the first one


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix, self.head = nn.Embedding(1000, 128), nn.Linear(128, 128), nn.Linear(128, 2)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        hidden = self.words(text)
        hidden = hidden + torch.tanh(self.mix(hidden)) * torch.sigmoid(hidden)
        scores: torch.Tensor = self.head(hidden.mean(dim=1))
        return scores


def main() -> None:
    options = arguments(__doc__, steps=120)
    torch.manual_seed(0)
    network, loss_function = Reader(), nn.CrossEntropyLoss()
    model = torch.compile(network, dynamic=options.fixed)  # planted
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
    for step in range(options.steps):
        length = 32 + 16 * (step // 20)  # short texts first
        text = torch.randint(1000, (64, length))
        optimizer.zero_grad()
        loss = loss_function(model(text), text[:, 0] % 2)  # planted
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} length {length} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
