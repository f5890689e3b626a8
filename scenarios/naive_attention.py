"""Attention as two matrix products and a softmax, over long sequences. `--fixed` uses torch's one function for it."""

import torch
from torch import nn
from torch.nn import functional

from parts import arguments


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, fixed: bool) -> None:
        super().__init__()
        self.heads, self.fixed = heads, fixed
        self.split, self.join, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        parts = self.split(self.norm(hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if self.fixed:
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-2, -1) / (width // self.heads) ** 0.5  # planted
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            weights = functional.softmax(scores.masked_fill(future, float("-inf")), dim=-1)  # planted
            mixed = weights @ value  # planted
        return hidden + self.join(mixed.transpose(1, 2).reshape(batch, length, width))


def main() -> None:
    options = arguments(__doc__, steps=40)
    torch.manual_seed(0)
    embedding, head = nn.Embedding(64, 128), nn.Linear(128, 64)
    model = nn.Sequential(embedding, *(Attention(128, 4, options.fixed) for _ in range(2)), head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(64, (100_000,)).sort().values
    for step in range(options.steps):
        starts = torch.randint(len(tokens) - 1025, (4, 1))
        text = tokens[starts + torch.arange(1025)]
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
