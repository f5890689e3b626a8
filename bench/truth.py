"""Recorded shares of data wait against the count of scripts that measure themselves, through the command line.

python bench/truth.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

JOBS = Path(__file__).parent.parent / "tests" / "collect" / "jobs"
CASES = (
    ("share", "0.1"), ("share", "0.5"), ("share", "0.9"), ("accumulation", "4"), ("closure", ""), ("iterable", ""),
    ("workers", "0"), ("workers", "2"), ("validation", ""),
)  # fmt: skip
WARM_UP = 3  # steps that the scripts leave out of their own count


def record(job: list[str], run: Path) -> None:
    command = [sys.executable, "-m", "stepscope", "run", "--quiet", "--out", str(run), "--", sys.executable, *job]
    subprocess.run(command, check=True, capture_output=True)


def recorded_share(run: Path, rank: int = 0) -> float:
    command = [sys.executable, "-m", "stepscope", "show", "steps", str(run), "--format", "json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]
    rows = [row for row in rows if row["rank"] == rank]
    steps = rows[WARM_UP:]
    span: int = steps[-1]["end"] - rows[WARM_UP - 1]["end"]
    wait: int = sum(step["data_wait"] for step in steps)
    return wait / span


def show(label: str, own: dict[str, float], seen: float) -> None:
    true = own["data_wait"] / own["duration"]
    print(f"{label:18} {true:10.2%} {seen:10.2%} {100 * (seen - true):+8.2f}", flush=True)


def main() -> None:
    print(f"{'script':18} {'own count':>10} {'recorded':>10} {'points':>8}")
    for mode, argument in CASES:
        with tempfile.TemporaryDirectory() as name:
            truth, run = Path(name) / "truth.json", Path(name) / "run"
            record([str(JOBS / "truth.py"), str(truth), mode, argument], run)
            show(f"{mode} {argument}", json.loads(truth.read_text()), recorded_share(run))
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        record([*torchrun, str(JOBS / "ranks.py"), name], run)
        for rank in (0, 1):
            own = json.loads((Path(name) / f"rank-{rank}.json").read_text())
            show(f"torchrun, rank {rank}", own, recorded_share(run, rank))


if __name__ == "__main__":
    main()
