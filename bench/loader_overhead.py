"""What recording the input pipeline costs: CPU time per sample and per start of a worker, beside other profilers.

One job runs under `stepscope run --trace none --lines none --loader on` (or all). It makes a loader of the same data
for each contender: bare (without the recorder's hooks), stepscope (with them), and torch.profiler and VizTracer,
started in each worker by `worker_init_fn`. In each round an epoch is read from all of them in step: a batch of each, in
random order, then the next. So whatever the machine does besides, it does to all. CPU time is that of the workers over
the epoch, from their own clocks, and of the main process while it takes the batch. py-spy at 100 Hz, attached to each
worker, works as long as the clock on the wall runs: it has epochs of its own, each beside a bare one, and its processes
count. Workers persist, so no start or end of anything is in it: what torch.profiler and VizTracer need to start, and to
write what they have kept, comes on top. After some rounds all loaders are made anew. The figure is the ratio to the
bare epoch of the round; the table has its median, quartiles and the 90 % interval of the median over all rounds.

A sample is so many checksums of 64 KB in turn from 1 MB as the CPU time asked for takes: like decoding it runs in C and
leaves little in the caches. (An empty loop of Python does not do: its speed hangs by some per cent on where its frame
comes to lie, and that on the depth of the calls above it.)

What the start and the end of a worker cost more is measured apart, with loaders that read one batch per worker.

    python bench/loader_overhead.py                    # 10 ms and 0.2 ms a sample, 2 workers, batches of 32
    python bench/loader_overhead.py --ms 0.05 --batch 8 --workers 0 --peers none
    python bench/loader_overhead.py --core 1           # all on one core: two that share their units disturb each other

The peers are installed into an environment of their own (.bench-venv), in which the job then runs.
"""

import argparse
import json
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGES = ("torch==2.13.0", "viztracer==1.1.1", "py-spy==0.4.3")
PEERS = ("torch.profiler", "viztracer", "py-spy")
BARE, OURS, ALONE = "bare", "stepscope", "bare alone"
SECONDS = 1.0  # of CPU time in an epoch
ROUNDS_OF_LOADERS = 8  # rounds of epochs that loaders are read for: longer, and their chance placement counts
RESAMPLES = 2000
PIECES = [os.urandom(64 << 10) for _ in range(16)]
_kept: list[Any] = []  # profilers of this worker


def environment() -> Path:
    """Python of an environment with torch and the peers, made on the first use."""
    folder = HERE.parent / ".bench-venv"
    python = folder / "bin" / "python"
    if not all((folder / "bin" / name).exists() for name in ("viztracer", "py-spy")):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for package in PACKAGES:
            subprocess.run([python, "-m", "pip", "install", "-q", package], check=True)
    return python


class Checksums:
    """A transform: so many checksums. The data set holds one of each of its classes, so each call is a span."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def __call__(self, sample: Any) -> Any:
        for turn in range(self.turns):
            zlib.crc32(PIECES[turn % len(PIECES)])
        return sample


def job(ms: float, batch: int, workers: int, rounds: int, peers: Sequence[str], calls: int) -> None:
    """Print one line: CPU seconds per sample of each round by contender, and of pairs of starts of a worker."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Busy(Dataset[torch.Tensor]):
        def __init__(self, size: int, turns: int) -> None:
            self.size, self.turns = size, 0 if calls else turns
            self.transforms = [type(f"Part{part}", (Checksums,), {})(turns // calls) for part in range(calls)]

        def __len__(self) -> int:
            return self.size

        def __getitem__(self, index: int) -> torch.Tensor:
            for turn in range(self.turns):
                zlib.crc32(PIECES[turn % len(PIECES)])
            for transform in self.transforms:
                transform(sample)
            return sample

    torch.set_num_threads(1)
    sample = torch.zeros(64)
    batches = max(2 * workers, 4, int(SECONDS * 1000 / ms) // batch)
    data = Busy(batches * batch, max(1, round(ms * 1e6 / _turn_ns())))
    switch = _switch()
    found: list[dict[str, float]] = []
    while len(found) < rounds:
        loaders: dict[str, Any] = {}
        for name in random.sample([BARE, OURS, *peers], 2 + len(peers)):
            loaders[name] = DataLoader(
                data, batch, num_workers=workers, persistent_workers=workers > 0, worker_init_fn=STARTS.get(name)
            )
            switch(name == OURS)
            list(loaders[name])  # its workers start
        attached = Attached(loaders["py-spy"]._iterator._workers) if "py-spy" in peers else None
        for _ in range(ROUNDS_OF_LOADERS):
            row = _in_step({name: loader for name, loader in loaders.items() if name != "py-spy"}, switch)
            if attached is not None:
                row |= {
                    ALONE: _in_step({ALONE: loaders[BARE]}, switch)[ALONE],
                    **attached.watch(loaders["py-spy"], switch),
                }
            found.append({name: seconds / len(data) for name, seconds in row.items()})
        if attached is not None:
            attached.end()
        for loader in loaders.values():
            loader._iterator = None  # its workers end
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
    print(json.dumps((found[:rounds], starts)))


def _profile(worker: int) -> None:
    import torch

    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    _kept.append(profiler)


def _viztrace(worker: int) -> None:
    import viztracer

    tracer = viztracer.VizTracer(verbose=0)
    tracer.start()
    _kept.append(tracer)


STARTS: dict[str, Callable[[int], None]] = {"torch.profiler": _profile, "viztracer": _viztrace}
"""What a contender does in its workers."""


class Attached:
    """The processes of py-spy that look at a loader's workers, one each.

    They look at them while others have their turn, too: one that had been halted would make up for it.
    """

    def __init__(self, workers: Sequence[Any]) -> None:
        command = [str(Path(sys.executable).parent / "py-spy"), "record", "--rate", "100", "--duration", "100000",
                   "--format", "raw", "--output", os.devnull, "--pid"]  # fmt: skip
        self.processes = [
            subprocess.Popen([*command, str(worker.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for worker in workers
        ]
        time.sleep(2)  # it reads the symbols of the process; one that may not attach has ended
        if any(process.poll() is not None for process in self.processes):
            raise SystemExit("py-spy may not look at the workers (ptrace is not allowed): leave it out with --peers")

    def watch(self, loader: Any, switch: Callable[[bool], None]) -> dict[str, float]:
        """CPU seconds of an epoch with py-spy."""
        before = sum(_process_seconds(process.pid) for process in self.processes)
        used = _in_step({"py-spy": loader}, switch)["py-spy"]
        used += sum(_process_seconds(process.pid) for process in self.processes) - before
        return {"py-spy": used}

    def end(self) -> None:
        """Of all of them; the workers go on."""
        for process in self.processes:
            process.send_signal(signal.SIGINT)
            process.wait()


def _in_step(loaders: dict[str, Any], switch: Callable[[bool], None]) -> dict[str, float]:
    """CPU seconds of this process and of the workers in an epoch of each loader, a batch of each at a time."""
    before = {name: _workers_seconds(loader) for name, loader in loaders.items()}
    used, iterators = dict.fromkeys(loaders, 0.0), {}
    for name, loader in loaders.items():
        switch(name == OURS)
        start = time.process_time()
        iterators[name] = iter(loader)
        used[name] += time.process_time() - start
    waiting = list(loaders)
    while waiting:
        random.shuffle(waiting)
        for name in tuple(waiting):
            start = time.process_time()
            batch = next(iterators[name], None)
            used[name] += time.process_time() - start
            if batch is None:
                waiting.remove(name)
    return {name: used[name] + _workers_seconds(loader) - before[name] for name, loader in loaders.items()}


def _workers_seconds(loader: Any) -> float:
    """CPU time of the workers so far."""
    return sum(_process_seconds(worker.pid) for worker in getattr(loader._iterator, "_workers", ()))


def _process_seconds(pid: int) -> float:
    """CPU time of a process, from the clock that Linux makes of its id."""
    return time.clock_gettime(~pid << 3 | 2)


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
        if "/stepscope/collect/dataloader/" in getattr(getattr(hook, "__code__", None), "co_filename", "")
    ]
    if not hooks:
        raise SystemExit("the recorder is not in this process: run the benchmark without arguments of a job")

    def switch(on: bool) -> None:
        for owner, name, hook in hooks:
            setattr(owner, name, hook if on else hook.__wrapped__)

    return switch


def measure(
    ms: float, batch: int, workers: int, rounds: int, peers: Sequence[str], core: int | None, calls: int, loader: str
) -> tuple[list[dict[str, float]], list[Any], int]:
    """The rounds of a job, its pairs of starts, and the bytes that its spans took."""
    python = str(environment()) if peers else sys.executable
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "stepscope", "run", "--trace", "none", "--lines", "none", "--loader", loader,
            "--quiet", "--out", f"{folder}/run", "--", python, __file__, "--job", f"--ms={ms}", f"--batch={batch}",
            f"--workers={workers}", f"--rounds={rounds}", f"--peers={','.join(peers) or 'none'}",
            f"--calls={calls}",
        ]  # fmt: skip
        if core is not None:
            command = ["taskset", "-c", str(core), *command]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
        size = sum(file.stat().st_size for file in Path(folder).glob("run/loading/*.*"))
        return *json.loads(done.stdout.splitlines()[-1]), size


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """The 90 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 20], medians[-RESAMPLES // 20]


def show(
    ms: float, batch: int, workers: int, rounds: int, peers: Sequence[str], core: int | None, calls: int, loader: str
) -> None:
    found, starts, size = measure(ms, batch, workers, rounds, peers, core, calls, loader)
    bare = statistics.median(row[BARE] for row in found)
    print(
        f"{ms:7.3f} ms, {workers} workers, batch {batch:4}: {bare * 1e3:8.4f} ms CPU per sample bare, "
        f"{len(found)} rounds, {size / 1e6:.1f} MB of spans",
        flush=True,
    )
    for name in (OURS, *peers):
        plain = ALONE if name == "py-spy" else BARE
        ratios = [100 * (row[name] / row[plain] - 1) for row in found]
        low, middle, high = statistics.quantiles(ratios, n=4)
        least, most = median_interval(ratios)
        more = statistics.median(row[name] - row[plain] for row in found)
        print(
            f"{'':12}{name:15} {more * 1e6:+9.2f} µs = {middle:+7.2f} % (90 % of medians {least:+.2f} to {most:+.2f}, "
            f"quartiles {low:+.2f} and {high:+.2f} %)",
            flush=True,
        )
    if starts:
        more = statistics.median(on - off for on, off in starts)
        whole = statistics.median(off for _, off in starts)
        print(f"{'':12}start and end of a worker: {whole * 1e3:.1f} ms CPU off, {more * 1e3:+.2f} ms on", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ms", type=float, action="append", help="CPU time of a sample, may be given several times")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--peers", default=",".join(PEERS), help="those to compare with, or none")
    parser.add_argument("--core", type=int, help="keep all on this core")
    parser.add_argument("--calls", type=int, default=0, help="transforms that a sample passes through")
    parser.add_argument("--loader", choices=("on", "all"), default="on", help="as for stepscope run")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    peers = [] if options.peers == "none" or not options.workers else options.peers.split(",")
    for ms in options.ms or (10.0, 0.2):
        if options.job:
            job(ms, options.batch, options.workers, options.rounds, peers, options.calls)
        else:
            show(ms, options.batch, options.workers, options.rounds, peers, options.core, options.calls, options.loader)


if __name__ == "__main__":
    main()
