"""Every sample loads the whole file that it is a part of. `--fixed` maps the file once in each worker."""

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from parts import options, train

_PICTURES, _SIZE = 4096, 32


class Stored(Dataset[tuple[torch.Tensor, int]]):
    """Pictures of one array file, 12 MiB."""

    def __init__(self, path: Path, count: int, *, again: bool) -> None:
        self.path, self.count, self.again = path, count, again
        self.pixels: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self.again:
            pixels = np.load(self.path)  # planted
        else:
            if self.pixels is None:
                self.pixels = np.load(self.path, mmap_mode="r")
            pixels = self.pixels
        return torch.tensor(pixels[index % _PICTURES]), index % 10


def main() -> None:
    chosen = options(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pictures.npy"
        noise = np.random.default_rng(0).integers(0, 256, (_PICTURES, 3, _SIZE, _SIZE), dtype=np.uint8)
        np.save(path, noise)
        pictures = Stored(path, chosen.steps * 16, again=not chosen.fixed)
        train(DataLoader(pictures, batch_size=16, num_workers=2 if chosen.workers is None else chosen.workers))


if __name__ == "__main__":
    main()
