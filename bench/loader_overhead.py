"""What recording the input pipeline costs: CPU time per sample and per start of a worker.

One job runs under `stepscope run --trace none --lines none --loader on`. It makes two loaders of the same data, one
with the recorder's hooks and one without, both with workers that persist, and reads epochs from both in turn (a pair's
order changes). CPU time is that of the main process and of the loader's workers, from their own clocks, so no start or
end of a worker is in it. After some pairs it makes both loaders anew. The figure is the ratio of a pair; the table has
its median, quartiles and the 90 % interval of the median over all pairs, so a machine that does other things too widens
it but does not move it.

A sample is so many checksums of 64 KB in turn from 1 MB as the CPU time asked for takes: like decoding it runs in C and
leaves little in the caches. (An empty loop of Python does not do: its speed hangs by some per cent on where its frame
comes to lie, and that on the depth of the calls above it.)

What the start and the end of a worker cost more is measured apart, with loaders that read one batch per worker.

    python bench/loader_overhead.py                    # 10 ms and 0.2 ms a sample, 2 workers, batches of 32
    python bench/loader_overhead.py --ms 0.05 --batch 8 --workers 0
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SECONDS = 1.0  # of CPU time in an epoch
PAIRS_OF_LOADERS = 8  # pairs of epochs that two loaders are read for: longer, and their chance placement counts
RESAMPLES = 2000
PIECES = [os.urandom(64 << 10) for _ in range(16)]


def job(ms: float, batch: int, workers: int, rounds: int) -> None:
    """Print one line: CPU seconds per sample of each pair with and without the recorder, and per start of a worker."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Busy(Dataset[torch.Tensor]):
        def __init__(self, size: int, turns: int) -> None:
            self.size, self.turns = size, turns

        def __len__(self) -> int:
            return self.size

        def __getitem__(self, index: int) -> torch.Tensor:
            for turn in range(self.turns):
                zlib.crc32(PIECES[turn % len(PIECES)])
            return sample

    torch.set_num_threads(1)
    sample = torch.zeros(64)
    batches = max(2 * workers, 4, int(SECONDS * 1000 / ms) // batch)
    data = Busy(batches * batch, max(1, round(ms * 1e6 / _turn_ns())))
    switch = _switch()
    pairs: list[tuple[float, float]] = []
    while len(pairs) < rounds:
        loaders = {
            on: DataLoader(data, batch, num_workers=workers, persistent_workers=workers > 0)
            for on in ((True, False) if len(pairs) // PAIRS_OF_LOADERS % 2 else (False, True))
        }
        for turn in range(-1, PAIRS_OF_LOADERS):
            pair = {}
            for on in (True, False) if turn % 2 else (False, True):
                switch(on)
                pair[on] = _epoch(loaders[on]) / len(data)
            if turn >= 0:
                pairs.append((pair[True], pair[False]))
        for loader in loaders.values():
            del loader._iterator  # its workers end
    starts = []
    for turn in range(rounds if workers else 0):
        pair = {}
        for on in (True, False) if turn % 2 else (False, True):
            switch(on)
            before = _ended_seconds()
            for _ in DataLoader(Busy(workers, 1), 1, num_workers=workers):
                pass
            pair[on] = (_ended_seconds() - before) / workers
        starts.append((pair[True], pair[False]))
    print(json.dumps((pairs[:rounds], starts)))


def _epoch(loader: Any) -> float:
    """CPU seconds of this process and of the loader's workers in an epoch; the first also starts the workers."""
    own, before = time.process_time(), _workers_seconds(loader)
    for _ in loader:
        pass
    return time.process_time() - own + _workers_seconds(loader) - before


def _workers_seconds(loader: Any) -> float:
    """CPU time of the workers so far, from the process clocks that Linux makes of process ids."""
    workers = getattr(loader._iterator, "_workers", ())
    return sum(time.clock_gettime(~worker.pid << 3 | 2) for worker in workers)


def _ended_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _turn_ns() -> float:
    """CPU time of a checksum, the best of some tries."""
    tries, turns = [], 1000
    for _ in range(7):
        before = time.thread_time_ns()
        for turn in range(turns):
            zlib.crc32(PIECES[turn % len(PIECES)])
        tries.append((time.thread_time_ns() - before) / turns)
    return min(tries)


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


def measure(ms: float, batch: int, workers: int, rounds: int) -> tuple[list[Any], list[Any], int]:
    """The pairs of a job, those of its starts, and the bytes that its spans took."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "stepscope", "run", "--trace", "none", "--lines", "none", "--loader", "on", "--quiet",
            "--out", f"{folder}/run", "--", sys.executable, __file__, "--job", f"--ms={ms}", f"--batch={batch}",
            f"--workers={workers}", f"--rounds={rounds}",
        ]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
        size = sum(file.stat().st_size for file in Path(folder).glob("run/loading/*"))
        return *json.loads(done.stdout.splitlines()[-1]), size


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 90 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 20], medians[-RESAMPLES // 20]


def show(ms: float, batch: int, workers: int, rounds: int) -> None:
    pairs, starts, size = measure(ms, batch, workers, rounds)
    ratios = [100 * (on / off - 1) for on, off in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    least, most = median_interval(ratios)
    plain = statistics.median(off for _, off in pairs)
    more = statistics.median(on - off for on, off in pairs)
    print(
        f"{ms:7.3f} ms, {workers} workers, batch {batch:4}: {plain * 1e3:8.4f} ms CPU per sample off, "
        f"{more * 1e6:+7.2f} µs on = {middle:+.2f} % (90 % of medians {least:+.2f} to {most:+.2f}, "
        f"quartiles {low:+.2f} and {high:+.2f} %, {len(pairs)} pairs), {size / 1e6:.1f} MB of spans",
        flush=True,
    )
    if starts:
        more = statistics.median(on - off for on, off in starts)
        plain = statistics.median(off for _, off in starts)
        print(f"{'':12}start and end of a worker: {plain * 1e3:.1f} ms CPU off, {more * 1e3:+.2f} ms on", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ms", type=float, action="append", help="CPU time of a sample, may be given several times")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for ms in options.ms or (10.0, 0.2):
        (job if options.job else show)(ms, options.batch, options.workers, options.rounds)


if __name__ == "__main__":
    main()
