"""What the scenarios train: a data set of small pictures made from noise, and a convolutional network."""

import torch
from torch import nn
from torch.utils.data import Dataset

__all__ = ["Network", "Pictures"]


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """`count` random pictures of 3×`size`×`size` with one of ten labels, kept in memory."""

    def __init__(self, count: int, size: int = 32) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.rand((256, 3, size, size), generator=generator)
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.pixels[index % len(self.pixels)], index % 10


class Network(nn.Module):
    """Three convolutions and a linear layer; `width` sets how long a step takes."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classify = nn.Linear(2 * width * 16, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.classify(self.features(pictures).flatten(1))
        return scores
