"""Short recorded jobs with a fault in the recorder: does each end, print and compute as the same job does bare?

A warm process with torch imported and the probe armed forks one job after the other. In each one thing goes wrong: a
function of the recorder raises where the recorder calls it; a call of the system that it makes fails; a clock that it
reads jumps; its files vanish. Exit code, both outputs, the data that the model saw and the files written are compared.

    python bench/chaos.py --jobs 10000 --processes 2

A job is drawn from the seed and its number, so that it can be made again. With `--ledger FILE`, what has been run is
kept there, and run no more: the figure may be gathered over several runs, each of which prints the total.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_faults import COLLECT
from chaos_job import VARIANTS, options

JOB = Path(__file__).with_name("chaos_job.py")
ROUND = 125  # jobs of a warm process, which takes as long to start as twenty of them
HOOKS = ("compiled", "python")
EXITS = {"failing": 1, "evaluating": 3}
"""How jobs end that do not end with 0."""

COMPARED = ("exit", "stdout", "stderr", "files")


@dataclass(frozen=True)
class Round:
    """The jobs that one warm process runs, from the number `first` on."""

    first: int
    jobs: int
    hooks: str


@dataclass
class Result:
    """What some jobs did: how many, in how many the fault came, steps recorded, and what differed in which of them."""

    counts: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    def add(self, other: "Result") -> None:
        """Count the jobs of another result too."""
        self.counts.update(other.counts)
        self.different += other.different

    def told(self) -> str:
        """The figure in one line."""
        jobs, came, steps = (self.counts[name] for name in ("jobs", "came", "steps"))
        return f"{jobs} jobs, the fault came in {came}, {steps} steps recorded, {len(self.different)} differences"


def rounds(first: int, jobs: int, size: int, hooks: str = "") -> list[Round]:
    """The rounds for a number of jobs, with each kind of hooks in turn."""
    starts = range(first, first + jobs, size)
    return [Round(start, min(size, first + jobs - start), hooks or HOOKS[start // size % 2]) for start in starts]


class Bench:
    """Warm processes, and what the jobs do bare."""

    def __init__(self, place: Path, seed: int, *, faults: bool) -> None:
        self._place, self._seed, self._faults = place, seed, faults
        self._bare = self._start(Round(0, 2 * len(VARIANTS), ""), recorded=False)
        self._expected: dict[tuple[str, bool], dict[str, Any]] = {}

    def start(self, round_: Round) -> "Running":
        """Start a round."""
        return self._start(round_, recorded=True)

    def finish(self, running: "Running") -> Result:
        """Wait for a round, and compare its jobs."""
        if not self._expected:
            self._expected = {(variant, whole): outcome for _, variant, whole, _, outcome in self._bare.rows()}
            for (variant, _), outcome in self._expected.items():
                if outcome["exit"] != EXITS.get(variant, 0):
                    raise SystemExit(f"the job {variant} fails bare: {outcome['stderr']}")
        result = Result()
        for number, variant, whole, fault, now in running.rows():
            was = self._expected[variant, whole]
            result.counts.update(jobs=1, came=now["came"], steps=now["steps"])
            result.different += [
                f"--first {number} --hooks {running.round.hooks}: {variant}, {fault}: {what} "
                f"{now[what]!r:.900} instead of {was[what]!r:.300}"
                for what in COMPARED
                if now[what] != was[what]
            ]
        return result

    def _start(self, round_: Round, *, recorded: bool) -> "Running":
        folder = Path(tempfile.mkdtemp(dir=self._place))
        run, results = folder / "run", folder / "results"
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        environment.pop("STEPSCOPE_RUN_DIR", None)
        environment.pop("STEPSCOPE_HOOKS", None)
        if recorded:
            environment["PYTHONPATH"] = os.pathsep.join(
                [COLLECT + "inject", *filter(None, [os.environ.get("PYTHONPATH")])]
            )
            environment |= {"STEPSCOPE_RUN_DIR": str(run), "STEPSCOPE_OPTIONS": options("")}
            run.mkdir()
            if round_.hooks == "python":
                environment["STEPSCOPE_HOOKS"] = "python"
        task = {"first": round_.first, "jobs": round_.jobs, "hooks": round_.hooks, "recorded": recorded,
                "faults": self._faults, "seed": self._seed, "folder": str(folder), "run": str(run),
                "results": str(results)}  # fmt: skip
        process = subprocess.Popen([sys.executable, str(JOB), json.dumps(task)], env=environment)
        return Running(round_, process, results)


@dataclass(frozen=True)
class Running:
    """A warm process at work."""

    round: Round
    process: "subprocess.Popen[bytes]"
    results: Path

    def rows(self) -> Iterator[list[Any]]:
        """Number, variant, whether it was whole, fault and outcome of each job."""
        if self.process.wait():
            raise SystemExit(f"the warm process of {self.round} ended with {self.process.returncode}")
        with self.results.open(encoding="utf-8") as results:
            for line in results:
                yield json.loads(line)


def bench(
    waiting: Iterable[Round], processes: int, seed: int, *, faults: bool = True
) -> Iterator[tuple[Round, Result]]:
    """Each round with its result, some of them at a time."""
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        this = Bench(Path(place), seed, faults=faults)
        running: list[Running] = []
        for one in waiting:
            if len(running) == processes:
                first = running.pop(0)
                yield first.round, this.finish(first)
            running.append(this.start(one))
            stack.callback(running[-1].process.kill)
        for left in running:
            yield left.round, this.finish(left)


class Ledger:
    """What has been run, a line for each round; without a file it is forgotten."""

    def __init__(self, path: Path | None) -> None:
        self._path, self.next, self.total = path, 0, Result()
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._count(row["first"] + row["counts"]["jobs"], Result(Counter(row["counts"]), row["different"]))

    def enter(self, round_: Round, result: Result) -> None:
        """A round has been run."""
        self._count(round_.first + round_.jobs, result)
        if self._path is not None:
            row = {"first": round_.first, "hooks": round_.hooks, "commit": _commit(), **vars(result)}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def _count(self, end: int, result: Result) -> None:
        self.next = max(self.next, end)
        self.total.add(result)


def _commit() -> str:
    words = ["git", "-C", str(JOB.parent), "describe", "--always", "--dirty"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000, help="in all, those of the ledger counted in")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, help="number of the first job; the ledger's next if it is not given")
    parser.add_argument("--hooks", choices=HOOKS, default="", help="only these; by default each in turn")
    parser.add_argument("--ledger", type=Path, help="file with what has been run")
    parser.add_argument("--no-faults", action="store_true", help="only that the jobs are recorded, and nothing differs")
    given = parser.parse_args()
    ledger = Ledger(given.ledger)
    first = ledger.next if given.first is None else given.first
    jobs = max(0, given.jobs - ledger.total.counts["jobs"])
    waiting = rounds(first, jobs, min(ROUND, -(-jobs // len(HOOKS)) or 1), given.hooks)
    for round_, result in bench(waiting, given.processes, given.seed, faults=not given.no_faults):
        ledger.enter(round_, result)
        print(*dict.fromkeys(result.different), ledger.total.told(), sep="\n", flush=True)
    return 1 if ledger.total.different else 0


if __name__ == "__main__":
    sys.exit(main())
