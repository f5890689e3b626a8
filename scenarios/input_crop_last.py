"""Whole decoded pictures are converted to float, then cropped. `--fixed` crops them first."""

import io

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from parts import Compose, options, train

_SIZE, _PART = 384, 96


class Convert:
    """Bytes of a picture to numbers from 0 to 1, channels first."""

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.permute(2, 0, 1).to(torch.float64).div(255).sqrt().to(torch.float32).contiguous()  # planted


class Crop:
    """The middle of a picture, channels first or last."""

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        begin = (_SIZE - _PART) // 2
        part = slice(begin, begin + _PART)
        return pixels[part, part] if pixels.shape[-1] == 3 else pixels[:, part, part].clone()


class Photographs(Dataset[tuple[torch.Tensor, int]]):
    """One JPEG file in memory, again and again."""

    def __init__(self, count: int, transform: Compose) -> None:
        noise = torch.rand((24, 24, 3), generator=torch.Generator().manual_seed(0)).mul(255).byte()
        file = io.BytesIO()
        Image.fromarray(noise.numpy()).resize((_SIZE, _SIZE)).save(file, "JPEG")
        self.file, self.count, self.transform = file.getvalue(), count, transform

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = Image.open(io.BytesIO(self.file))
        picture.load()
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(_SIZE, _SIZE, 3)
        return self.transform(pixels), index % 10


def main() -> None:
    chosen = options(__doc__, steps=120)
    transform = Compose([Crop(), Convert()] if chosen.fixed else [Convert(), Crop()])
    pictures = Photographs(chosen.steps * 16, transform)
    train(DataLoader(pictures, batch_size=16, num_workers=1 if chosen.workers is None else chosen.workers))


if __name__ == "__main__":
    main()
