"""What recording the input pipeline costs: CPU time of a sample with the recorder on and off.

One job runs under `stepscope run --trace none --lines none`; it loads epoch after epoch and takes the recorder's hooks
out for every other one (a pair's order changes from round to round). An epoch's workers end with it, so their CPU time,
their start included, is counted with that of the main process (getrusage). A sample is a loop of Python, as long as it
takes for the CPU time asked for. The figure is the ratio of a pair; the table has its median and quartiles over
all rounds, so a machine that does other things too widens it but does not move it.

    python bench/loader_overhead.py                    # 10 ms and 0.2 ms a sample, 2 workers, batches of 32
    python bench/loader_overhead.py --ms 0.05 --batch 8 --workers 0
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 2.0  # of CPU time in an epoch: long beside the start of two workers
WARM_UP = 2


def job(ms: float, batch: int, workers: int, rounds: int) -> None:
    """Print one line: CPU seconds per sample of each round, with and without the recorder."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Busy(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return max(4 * batch, int(SECONDS * 1000 / ms) // batch * batch)

        def __getitem__(self, index: int) -> torch.Tensor:
            for _ in range(turns):
                pass
            return sample

    torch.set_num_threads(1)
    turns = int(ms * 1e6 / _turn_ns())
    sample = torch.zeros(64)
    loader = DataLoader(Busy(), batch, num_workers=workers)
    switch = _switch()
    pairs = []
    for turn in range(-WARM_UP, rounds):
        pair: dict[bool, float] = {}
        for on in (True, False) if turn % 2 else (False, True):
            switch(on)
            before = _cpu_seconds()
            for _ in loader:
                pass
            pair[on] = (_cpu_seconds() - before) / len(loader.dataset)  # type: ignore[arg-type]
        if turn >= 0:
            pairs.append((pair[True], pair[False]))
    print(json.dumps(pairs))


def _turn_ns() -> float:
    """CPU time of a turn of a loop that does nothing, the best of some tries."""
    tries, turns = [], 1_000_000
    for _ in range(7):
        before = time.thread_time_ns()
        for _ in range(turns):
            pass
        tries.append((time.thread_time_ns() - before) / turns)
    return min(tries)


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _switch() -> Callable[[bool], None]:
    """A function that puts the recorder's hooks into torch's DataLoader, or takes them out."""
    from torch.utils.data import _utils, dataloader

    owners: list[Any] = [
        dataloader._MultiProcessingDataLoaderIter, dataloader._SingleProcessDataLoaderIter, _utils.worker,
        _utils.pin_memory, _utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher,
    ]  # fmt: skip
    hooks = [
        (owner, name, hook)
        for owner in owners
        for name, hook in vars(owner).items()
        if "/stepscope/collect/loading/" in getattr(getattr(hook, "__code__", None), "co_filename", "")
    ]
    if not hooks:
        raise SystemExit("the recorder is not in this process: run the benchmark without arguments of a job")

    def switch(on: bool) -> None:
        for owner, name, hook in hooks:
            setattr(owner, name, hook if on else hook.__wrapped__)

    return switch


def measure(ms: float, batch: int, workers: int, rounds: int) -> tuple[list[tuple[float, float]], int]:
    """The pairs of a job, and the bytes that its spans took."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "stepscope", "run", "--trace", "none", "--lines", "none", "--quiet", "--out",
            f"{folder}/run", "--", sys.executable, __file__, "--job", f"--ms={ms}", f"--batch={batch}",
            f"--workers={workers}", f"--rounds={rounds}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        size = sum(file.stat().st_size for file in Path(folder).glob("run/loading/*"))
        return json.loads(done.stdout.splitlines()[-1]), size


def show(ms: float, batch: int, workers: int, rounds: int) -> None:
    pairs, size = measure(ms, batch, workers, rounds)
    ratios = [100 * (on / off - 1) for on, off in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    plain = statistics.median(off for _, off in pairs)
    more = statistics.median(on - off for on, off in pairs)
    print(
        f"{ms:7.3f} ms, {workers} workers, batch {batch:4}: {plain * 1e3:8.4f} ms CPU per sample off, "
        f"{more * 1e6:+7.2f} µs on = {middle:+.2f} % (quartiles {low:+.2f} and {high:+.2f} %, {len(pairs)} rounds), "
        f"{size / 1e6:.1f} MB of spans",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ms", type=float, action="append", help="CPU time of a sample, may be given several times")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for ms in options.ms or (10.0, 0.2):
        (job if options.job else show)(ms, options.batch, options.workers, options.rounds)


if __name__ == "__main__":
    main()
