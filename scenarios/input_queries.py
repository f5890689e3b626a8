"""Each sample is many queries of a database. `--fixed` reads the rows of a batch by one, `--without` none."""

import sqlite3
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from parts import options, train

_SIDE = 16


class Stored(Dataset[tuple[torch.Tensor, int]]):
    """`count` pictures, whose rows of pixels are rows of a table; `batched`: one query for a batch; `blank`: none."""

    def __init__(self, path: Path, count: int, *, batched: bool, blank: bool) -> None:
        self.path, self.count, self.blank = path, count, blank
        self.connection: sqlite3.Connection | None = None
        if batched:
            self.__getitems__ = self._batch

    def __len__(self) -> int:
        return self.count

    def _database(self) -> sqlite3.Connection:
        if self.connection is None:  # one for each worker
            self.connection = sqlite3.connect(self.path)
        return self.connection

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        rows = [bytes(3 * _SIDE * _SIDE)] if self.blank else []
        for line in range(0 if self.blank else 3 * _SIDE):
            query = "SELECT pixels FROM lines WHERE picture = ? AND line = ?"
            rows.append(self._database().execute(query, (index % 256, line)).fetchone()[0])  # planted
        return _picture(b"".join(rows)), index % 10

    def _batch(self, indices: list[int]) -> list[tuple[torch.Tensor, int]]:
        wanted = ",".join(str(index % 256) for index in indices)
        found: dict[int, list[bytes]] = {}
        query = f"SELECT picture, pixels FROM lines WHERE picture IN ({wanted}) ORDER BY picture, line"
        for picture, pixels in self._database().execute(query):
            found.setdefault(picture, []).append(pixels)
        return [(_picture(b"".join(found[index % 256])), index % 10) for index in indices]


def _picture(pixels: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(3, _SIDE, _SIDE) / 255


def main() -> None:
    chosen = options(__doc__, steps=200, without=True)
    workers = 1 if chosen.workers is None else chosen.workers
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pictures.db"
        with sqlite3.connect(path) as made:
            made.execute("CREATE TABLE lines (picture INTEGER, line INTEGER, pixels BLOB, PRIMARY KEY (picture, line))")
            noise = torch.randint(
                256, (256, 3 * _SIDE, _SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
            )
            rows = ((p, line, noise[p, line].numpy().tobytes()) for p in range(256) for line in range(3 * _SIDE))
            made.executemany("INSERT INTO lines VALUES (?, ?, ?)", rows)
        stored = Stored(path, chosen.steps * 64, batched=chosen.fixed, blank=chosen.without)
        train(DataLoader(stored, batch_size=64, num_workers=workers), width=8)


if __name__ == "__main__":
    main()
