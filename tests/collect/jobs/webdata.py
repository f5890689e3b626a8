"""Loads batches with WebDataset's pipelines, as loading.py does with torch's loader. Usage: webdata.py NAME...

The shards are written into the current folder. A line has the name of the way and a hash of all batches.
"""

# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-return,no-untyped-call"

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import webdataset
from loading import BATCH, LASTING, LENGTH, Scaled, Stream, load, training
from torch.utils.data import DataLoader, IterableDataset

SHARDS = "shard-{000000..000001}.tar"


def write_shards() -> None:
    for shard in range(2):
        path = Path(f"shard-{shard:06}.tar")
        if not path.exists():
            with webdataset.TarWriter(str(path)) as writer:
                for sample in range(LENGTH // 2):
                    content = np.full(4, shard * LENGTH + sample, dtype=np.float32)
                    writer.write({"__key__": f"{shard}-{sample}", "rows.npy": content})


class Noisy:
    """A stage that is an object."""

    def __call__(self, row: torch.Tensor) -> torch.Tensor:
        return row + float(torch.rand(()))


def halved(row: torch.Tensor) -> torch.Tensor:
    return row / 2


def to_tensor(sample: dict[str, Any]) -> torch.Tensor:
    return torch.from_numpy(sample["rows.npy"].copy())


def pipeline(batch: int = BATCH) -> Any:
    stages = webdataset.WebDataset(SHARDS, shardshuffle=False).decode()
    return stages.map(to_tensor).map(Noisy()).map(halved).map(Scaled()).batched(batch, collation_fn=torch.stack)


class Staged(IterableDataset[torch.Tensor]):
    """Generators of its own, one after another."""

    def __init__(self) -> None:
        self.stages = [Noisy(), halved]

    def __iter__(self) -> Iterator[torch.Tensor]:
        rows: Iterator[torch.Tensor] = iter(Stream())
        for stage in self.stages:
            rows = self.through(stage, rows)
        return rows

    def through(self, stage: Any, rows: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        for row in rows:
            yield stage(row)


def two_epochs(loader: Any) -> None:
    for _ in range(2):
        training.epoch(loader)


WAYS = {
    "workers": lambda: two_epochs(DataLoader(pipeline(), batch_size=None, num_workers=2)),
    "lasting": lambda: two_epochs(DataLoader(pipeline(), batch_size=None, **LASTING)),
    "web-loader": lambda: two_epochs(webdataset.WebLoader(pipeline(), batch_size=None, num_workers=2)),
    "rebatched": lambda: two_epochs(
        webdataset.WebLoader(pipeline(2), batch_size=None, num_workers=2).batched(2, collation_fn=torch.cat)
    ),
    "single": lambda: two_epochs(DataLoader(pipeline(), batch_size=None)),
    "staged": lambda: two_epochs(DataLoader(Staged(), BATCH, num_workers=2)),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write_shards()
    load(WAYS)
