"""Two ranks with gloo, rank 1 reads slowly. Usage: ranks.py FOLDER, under torchrun, or ranks.py FOLDER spawn.

Each rank writes its own count: {"duration", "data_wait"} in seconds, from the end of step 2 to that of the last.
"""

# mypy: disable-error-code="no-untyped-call,no-any-return,attr-defined"

import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

BATCH, STEPS, WARM_UP = 4, 40, 3


class Sleeping(Dataset[torch.Tensor]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds / BATCH

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.ones(8)


def train(folder: str) -> None:
    torch.set_num_threads(1)
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(DataLoader(Sleeping(0.003 + 0.012 * rank), BATCH))
    begin = end = data_wait = 0.0
    for step in range(STEPS):
        before = time.perf_counter()
        batch = next(batches)
        if step >= WARM_UP:
            data_wait += time.perf_counter() - before
        time.sleep(0.002)
        model(batch).pow(2).mean().backward()
        optimizer.step()
        end = time.perf_counter()
        if step == WARM_UP - 1:
            begin = end
        optimizer.zero_grad()
    count = {"duration": end - begin, "data_wait": data_wait}
    (Path(folder) / f"rank-{rank}.json").write_text(json.dumps(count))
    dist.barrier()


def leave() -> None:
    """Torch 2.13, bare or not, aborts if gloo's thread still drops the last call when Python ends."""
    dist.destroy_process_group()
    time.sleep(0.1)


def spawned(rank: int, folder: str) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    train(folder)
    leave()


if __name__ == "__main__":
    if sys.argv[2:] == ["spawn"]:
        torch.multiprocessing.spawn(spawned, (sys.argv[1],), nprocs=2)
    else:
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
        train(sys.argv[1])
        leave()
