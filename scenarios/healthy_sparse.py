"""Nothing is wrong here: embeddings of a large table with sparse gradients, and a network behind them."""

import torch
from torch import nn

from parts import arguments


def main() -> None:
    options = arguments(__doc__, steps=150)
    torch.manual_seed(0)
    items = nn.EmbeddingBag(200_000, 64, sparse=True)
    network = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1))
    sparse = torch.optim.SparseAdam(items.parameters())
    dense = torch.optim.AdamW(network.parameters(), fused=True)
    bought, wanted = torch.randint(200_000, (4096, 20)), torch.rand(4096, 1)
    for step in range(options.steps):
        chosen = torch.randint(4096, (256,))
        sparse.zero_grad()
        dense.zero_grad()
        loss = nn.functional.mse_loss(network(items(bought[chosen])), wanted[chosen])
        loss.backward()
        sparse.step()
        dense.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
