"""The second of two processes has the long sequences, the first one waits for it. `--fixed` mixes the lengths."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from parts import arguments, in_two_processes


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(1000, 64), nn.Linear(64, 2)
        self.layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layer(self.words(text)).mean(dim=1))  # planted
        return scores


def train(steps: int, fixed: bool) -> None:
    model, loss_function = DistributedDataParallel(Reader()), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    texts = {length: torch.randint(1000, (512, length)) for length in (64, 256)}
    for step in range(steps):
        lengths = [64, 256] if fixed else [256, 256] if dist.get_rank() else [64, 64]  # planted
        optimizer.zero_grad()
        chosen = [texts[length][torch.randint(512, (8,))] for length in lengths]
        with model.no_sync():
            loss_function(model(chosen[0]), chosen[0][:, 0] % 2).backward()  # planted
        loss = loss_function(model(chosen[1]), chosen[1][:, 0] % 2)  # planted
        loss.backward()  # planted
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    in_two_processes(train, arguments(__doc__, steps=120))
