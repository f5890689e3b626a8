"""Are the shares of sampled lines true? A loop of planted parts: in training, in a loader's worker, and in training
whose operators have a thread for each core.

python bench/sampled_lines.py                 # stepscope beside the true shares
python bench/sampled_lines.py --py-spy PATH   # and the program py-spy, which reads stacks from outside the process

The job takes the time of each part itself, in the same run. Exits with 1 where a share is off by more than 3 points.
"""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SAMPLE = struct.Struct("<qqqIHH")
HEADER = 64
Shares = dict[str, float]

# -- the job -----------------------------------------------------------------------------------------------------------

TOOK: Counter[str] = Counter()
WHERE = ("training", "worker", "threads")


def python_loop() -> float:
    total = 0.0
    for value in range(12_000):
        total += value * 0.5
    return total


def cheap_reads() -> int:
    length = 0
    for _ in range(4):
        with open("/proc/self/statm") as file:  # releases the interpreter lock three times
            length += len(file.read())
    return length


def operators(matrix: Any) -> None:
    for _ in range(5):
        matrix = matrix @ matrix  # an operator is no call: nothing here lets other threads in but the operator itself


def lock_holder() -> list[int]:
    return sorted(range(5_000), key=int.__neg__)


def sleeper() -> None:
    time.sleep(0.0005)


def short_call(value: int) -> int:
    return value + 1


def short_calls() -> int:
    value = 0
    while value < 4_000:
        value = short_call(value)
    return value


def all_cores(matrix: Any) -> None:
    (matrix @ matrix).relu()


def one_core(matrix: Any) -> None:
    for _ in range(10):
        matrix[0].mean()


Part = Callable[..., object]
PARTS: tuple[Part, ...] = (python_loop, cheap_reads, operators, lock_holder, sleeper, short_calls)
IN_TURN: tuple[Part, ...] = (all_cores, one_core)
"""Of "threads": some 50 µs each, one after the other: a core is free in the second alone."""

WITH_MATRIX = (operators, *IN_TURN)


def parts_of(where: str) -> tuple[Part, ...]:
    return IN_TURN if where == "threads" else PARTS


def one_round(matrix: object, parts: tuple[Part, ...]) -> None:
    """Every part once, each timed; of short ones many rounds."""
    for part in parts * (20 if parts is IN_TURN else 1):
        begin = time.perf_counter_ns()
        part(*(matrix,) * (part in WITH_MATRIX))
        TOOK[part.__name__] += time.perf_counter_ns() - begin


def train(where: str, seconds: float) -> None:
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    parts = parts_of(where)

    class Parts(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            matrix, end = torch.eye(160), time.monotonic() + seconds
            while time.monotonic() < end:
                if where == "worker":
                    one_round(matrix, parts)
                yield torch.tensor([float(TOOK[part.__name__]) for part in parts])

    torch.set_num_threads((os.cpu_count() or 1) if where == "threads" else 1)
    matrix, told = torch.eye(160), torch.zeros(len(parts))
    model = torch.nn.Linear(len(parts), 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-30)
    for batch in DataLoader(Parts(), batch_size=None, num_workers=int(where == "worker")):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        if where != "worker":
            one_round(matrix, parts)
        told = batch
    if where == "worker":
        TOOK.update({part.__name__: int(value) for part, value in zip(parts, told.tolist(), strict=True)})
    print(json.dumps(TOOK))


# -- what each tool says of it -----------------------------------------------------------------------------------------


def shares(counts: Counter[str], where: str) -> Shares:
    names = [part.__name__ for part in parts_of(where)]
    whole = sum(counts[name] for name in names)
    return {name: 100 * counts[name] / max(1, whole) for name in names}


def part_of(functions: list[str]) -> str:
    return next((part.__name__ for part in (*PARTS, *IN_TURN) if part.__name__ in functions), "")


def stepscope(where: str, seconds: float) -> tuple[Shares, Shares]:
    """True shares of a recorded run, and those of its samples."""
    with tempfile.TemporaryDirectory() as folder:
        options = [
            "--quiet",
            "--no-report",
            "--trace",
            "none",
            "--lines",
            "200",
            "--loader",
            "all",
            "--loader-lines",
            "200",
        ]
        command = [sys.executable, "-m", "stepscope", "run", *options, "--out", f"{folder}/run", "--"]
        true = run([*command, *job(where, seconds)], where)
        found: Counter[str] = Counter()
        for file in Path(folder).rglob("lines.bin"):
            rows = [json.loads(line) for line in file.with_name("frames.jsonl").read_text().splitlines()]
            parts = {row["id"]: part_of([frame[2] for frame in row["frames"]]) for row in rows}
            for _, _, weight, stack, _, _ in SAMPLE.iter_unpack(file.read_bytes()[HEADER:]):
                found[parts[stack]] += weight
    return true, shares(found, where)


def py_spy(program: str, where: str, seconds: float) -> tuple[Shares, Shares]:
    """True shares of a run under py-spy, and those of its samples."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "raw.txt"
        options = ["--nonblocking", "--idle", "--subprocesses", "--rate", "200", "--format", "raw", "--output", output]
        true = run([program, "record", *map(str, options), "--", *job(where, seconds)], where)
        found: Counter[str] = Counter()
        for line in output.read_text().splitlines():
            stack, _, count = line.rpartition(" ")
            found[part_of([frame.split(" (")[0] for frame in stack.split(";")])] += int(count)
    return true, shares(found, where)


def job(where: str, seconds: float) -> list[str]:
    return [sys.executable, __file__, "--job", where, "--seconds", str(seconds)]


def run(command: list[str], where: str) -> Shares:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    last = next(line for line in reversed(done.stdout.splitlines()) if line.startswith("{"))
    return shares(Counter(json.loads(last)), where)


def compared(name: str, true: Shares, told: Shares) -> float:
    """Prints both; the largest difference in points."""
    for part, share in true.items():
        print(f"  {name:18} {part:14} {share:6.1f} %  {told[part]:6.1f} %")
    furthest = max(abs(share - told[part]) for part, share in true.items())
    print(f"  {name:18} off by {furthest:.1f} points")
    return furthest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--py-spy", metavar="PATH")
    parser.add_argument("--points", type=float, default=3.0, help="how far off a share may be (default: 3)")
    parser.add_argument("--only", nargs="*", choices=WHERE, default=WHERE)
    parser.add_argument("--job", choices=WHERE, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        train(given.job, given.seconds)
        return
    furthest = 0.0
    for where in given.only:
        print(f"{where}: true share, sampled share")
        furthest = max(furthest, compared("stepscope", *stepscope(where, given.seconds)))
        if given.py_spy:
            compared("py-spy", *py_spy(given.py_spy, where, given.seconds))
    raise SystemExit(furthest > given.points)


if __name__ == "__main__":
    main()
