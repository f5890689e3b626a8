"""Nothing is wrong here: a small transformer predicts the next token; its arithmetic takes the time."""

import torch
from torch import nn
from torch.nn import functional

from parts import arguments


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.split, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        parts = self.split(self.before(hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.join(mixed.transpose(1, 2).reshape(batch, length, width))
        fed: torch.Tensor = hidden + self.feed(self.between(hidden))
        return fed


def main() -> None:
    options = arguments(__doc__, steps=80)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 192), *(Block(192, 6) for _ in range(4)), nn.Linear(192, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(64, (100_000,)).sort().values
    for step in range(options.steps):
        starts = torch.randint(len(tokens) - 129, (8, 1))
        text = tokens[starts + torch.arange(129)]
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
