"""How a report on many ranks grows with their number: wall clock, CPU, and the memory of each process.

Every rank is a file of its own: a real trace, tiled to the size asked for (`--size`, MB; 0: a small real trace as it
is), with the number of the rank in its header. Each row is `stepscope report FOLDER` in fresh processes, nothing cached
but in the row that says so. Memory is the largest resident set of the process that was started, and of the largest of
its workers; the peer reads all ranks into one process, as tools for one trace do.

Usage: python bench/many_ranks.py [--ranks N …] [--size MB] [--jobs N] [--dask ADDRESS] [--no-peer]
For instance --ranks 8 16 32 64 --size 60, and --ranks 64 256 1024 --size 0.
"""

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from open_trace import KEPT, TILED, corpus, tiled

SMALL = "traces/hta/rank_unavailable/rank_not_found.json.gz"
POLL = 0.05  # seconds between two looks at the workers
_RANK = re.compile(rb'"rank": *-?\d+')
TOGETHER = """
import sys
from stepscope.report.assemble import assemble
from stepscope.storage import open_run
assemble(open_run(sys.argv[1]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of wall clock and of CPU of all processes; largest resident sets in bytes; the number of workers."""

    wall: float
    cpu: float
    first: int
    worker: int
    workers: int


def ranks(count: int, size: int, corpus: Path) -> Path:
    """A folder with so many ranks of `size` MB; made files are kept."""
    folder = KEPT / f"ranks-{size}"
    folder.mkdir(parents=True, exist_ok=True)
    whole = tiled(size, corpus / TILED).read_bytes() if size else gzip.decompress((corpus / SMALL).read_bytes())
    start = whole.index(b'"traceEvents"')
    for rank in range(count):
        path = folder / f"rank_{rank}.json"
        if not path.exists():
            header = _RANK.sub(b'"rank": %d' % rank, whole[:start])
            path.write_bytes(header + memoryview(whole)[start:])
    chosen = Path(tempfile.mkdtemp(prefix=f"{count}-ranks-", dir=KEPT))
    for rank in range(count):
        os.link(folder / f"rank_{rank}.json", chosen / f"rank_{rank}.json")
    return chosen


def cost_of(command: list[str | Path]) -> Cost:
    """Run a command and watch its workers. Raises CalledProcessError if it fails."""
    began, largest = time.perf_counter(), dict[int, int]()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            for pid in (process.pid, *children(process.pid)):
                largest[pid] = max(largest.get(pid, 0), resident(pid))
            time.sleep(POLL)
        _, status, used = ended
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    wall, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime  # with those of workers that were waited for
    first = largest.pop(process.pid, 0)
    return Cost(wall=wall, cpu=cpu, first=first, worker=max(largest.values(), default=0),
                workers=len(largest))  # fmt: skip


def children(pid: int) -> list[int]:
    """Workers of a process: what it started, without the tracker of Python's multiprocessing."""
    try:
        found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return [child for child in found if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]
    except FileNotFoundError:
        return []


def resident(pid: int) -> int:
    """The largest resident set so far, in bytes."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except FileNotFoundError:
        return 0
    return int(found[1]) * 1024 if found else 0


def show(name: str, count: int, size: float, cost: Cost) -> None:
    workers = f"{cost.workers} workers of {cost.worker / 1e6:5.0f} MB" if cost.workers else "no worker"
    print(
        f"{name:<28} {count:>5} ranks {size / 1e6:>7.0f} MB {cost.wall:8.2f} s wall {cost.cpu:8.2f} s CPU "
        f"{1000 * cost.cpu / count:8.1f} ms CPU/rank {cost.first / 1e6:7.0f} MB first, {workers}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--size", type=int, default=60, help="MB of a rank; 0: a small real trace")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--dask", metavar="ADDRESS", help="also on this cluster")
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    python = Path(sys.executable)
    print(json.dumps({"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}))
    for count in options.ranks:
        folder = ranks(count, options.size, corpus())
        try:
            compare(python, folder, count, options)
        finally:
            shutil.rmtree(folder)


def compare(python: Path, folder: Path, count: int, options: argparse.Namespace) -> None:
    """Print a row for each way to open a folder."""
    size = sum(file.stat().st_size for file in folder.iterdir())
    report: list[str | Path] = [python, "-m", "stepscope", "report", folder, "--format", "json"]
    ways: dict[str, list[str | Path]] = {
        f"{options.jobs} processes": [*report, "--no-cache", "--jobs", str(options.jobs)],
        "one rank after another": [*report, "--no-cache", "--jobs", "1"],
    }
    if options.size:
        ways["fill the cache"] = [*report, "--jobs", str(options.jobs)]
        ways["from the cache"] = [*report, "--jobs", str(options.jobs)]
    if options.dask:
        ways["Dask (CPU of this process)"] = [*report, "--no-cache", "--dask", options.dask]
    if not options.no_peer:
        ways["all in one process at once"] = [python, "-c", TOGETHER, folder]
    for name, command in ways.items():
        show(name, count, size, cost_of(command))


if __name__ == "__main__":
    main()
