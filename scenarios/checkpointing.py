"""Each block is computed again in the backward pass, though memory is free. `--fixed` keeps all activations."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from parts import arguments


class Encoder(nn.Module):
    def __init__(self, fixed: bool) -> None:
        super().__init__()
        self.fixed, self.inputs, self.head = fixed, nn.Linear(32, 128), nn.Linear(128, 10)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True) for _ in range(4)
        )

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        hidden = self.inputs(series)
        for block in self.blocks:
            hidden = block(hidden) if self.fixed else checkpoint(block, hidden, use_reentrant=False)  # planted
        scores: torch.Tensor = self.head(hidden.mean(dim=1))
        return scores


def main() -> None:
    options = arguments(__doc__, steps=80)
    torch.manual_seed(0)
    model, loss_function = Encoder(options.fixed), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, labels = torch.randn(2048, 64, 32), torch.randint(10, (2048,))
    for step in range(options.steps):
        chosen = torch.randint(len(inputs), (16,))
        optimizer.zero_grad()
        loss = loss_function(model(inputs[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
