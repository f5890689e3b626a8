"""Fuzz all that reads a trace: the report, the analyses and the page's data over damaged traces.

A case is a trace (small ones written here, and the small ones of the corpus if there is one: STEPSCOPE_CORPUS, else
../shared) and one to three kinds of damage, drawn from a seed and its number, so that it can be made again. Of each the
report and the page's data are asked; whether the report is drawn for a terminal or as Markdown and which ANALYSES_ASKED
of the analyses are asked as tables is drawn too, so that over many cases each is asked as often as any other. A case
must end in an answer or a refusal: no other exception and no warning, each question in 10 s of CPU, all in 1 GB of
memory. Failures are grouped by their line; of each the first trace is kept in the folder that the last line names.

Cases are tried in processes of BATCH each; one that dies is a failure. With --ledger FILE what has been tried is kept
there, and tried no more: the figure may be gathered over several runs, each of which prints the total.

Usage: python tools/fuzz_traces.py [--cases N] [--first N] [--seed N] [--jobs N] [--minutes N] [--ledger FILE]
"""

import argparse
import gc
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from trace_damage import damaged, own_traces

ROOT = Path(__file__).resolve().parents[1]
FOUND = ROOT / ".cache" / "fuzz-traces"
BATCH = 250  # cases: with them a process takes a minute or so
ANALYSES_ASKED = 15
"""Of some eighty. Those that the report asks for are computed in every case."""

LARGEST_SEED = 150_000  # bytes, packed: larger ones take seconds each, and are damaged in the same ways
MOST_SECONDS = 10
MOST_MEMORY = 1 << 30  # bytes
_COMMIT = ("git", "-C", str(ROOT), "describe", "--always", "--dirty")
_MEMORY = Path("/proc/self/status")
_FORGET = Path("/proc/self/clear_refs")  # 5 sets the peak back to what is in use


class TooSlow(BaseException):
    """A case took more than its time: no Exception, which code in between may catch."""


@dataclass(slots=True)
class Outcome:
    """What became of a case: refused or answered, what was asked, and what failed, by where."""

    refused: bool = False
    asked: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)


def corpus() -> list[tuple[str, bytes]]:
    """Names and bytes of the small traces that are there."""
    folder = Path(os.environ.get("STEPSCOPE_CORPUS", ROOT.parent / "shared")) / "traces"
    files = sorted(file for pattern in ("*.json", "*.json.gz") for file in folder.rglob(pattern) if file.is_file())
    return [(file.name, file.read_bytes()) for file in files if 0 < file.stat().st_size < LARGEST_SEED]


def tried(path: Path, chance: random.Random | None = None) -> Outcome:
    """Open a trace and ask what is drawn of it; without `chance` everything."""
    from stepscope.core.boundary import RAISE
    from stepscope.core.errors import StepscopeError
    from stepscope.storage import open_run

    os.environ[RAISE] = "1"
    outcome = Outcome()
    try:
        with limited():
            run = open_run(path)
    except StepscopeError:
        outcome.refused = True
        return outcome
    except (Exception, TooSlow) as error:  # noqa: BLE001, what the fuzzer is for
        outcome.failures.append(("open", place(error)))
        return outcome
    for name, ask in questions(chance):
        outcome.asked.append(name)
        try:
            with limited():
                ask(run)
        except StepscopeError:
            continue
        except (Exception, TooSlow, _panic()) as error:  # noqa: BLE001
            outcome.failures.append((name, place(error)))
    return outcome


def questions(chance: random.Random | None) -> Iterator[tuple[str, Callable[[Any], object]]]:
    """The report with its text, then analyses as tables of the page, then the timeline."""
    from stepscope.render.json import dumps, report_document
    from stepscope.report.assemble import assemble
    from stepscope.timeline import excerpt
    from stepscope.web.routes.tables import ANALYSES, table_document

    drawn = list(_FORMS) if chance is None else [chance.choice(list(_FORMS))]

    def report(run: Any) -> None:
        document = assemble(run)
        dumps(report_document(document))
        for form in drawn:
            _FORMS[form](document)

    yield f"report {' '.join(drawn)}", report
    names = ANALYSES.names()
    for name in names if chance is None else chance.sample(list(names), ANALYSES_ASKED):
        yield name, partial(table_document, name=name)
    yield "timeline", lambda run: json.dumps(excerpt(run), allow_nan=False)


def _on_terminal(document: Any) -> None:
    from stepscope.render.terminal import console_for
    from stepscope.render.terminal_card import print_report

    print_report(console_for(io.StringIO()), document)


def _as_markdown(document: Any) -> None:
    from stepscope.render.markdown import report_markdown

    report_markdown(document)


_FORMS: dict[str, Callable[[Any], None]] = {"terminal": _on_terminal, "markdown": _as_markdown}


def _panic() -> type[BaseException]:
    import polars as pl

    return pl.exceptions.PanicException


def place(error: BaseException) -> str:
    """Kind of an error, and the innermost line of ours: what makes two failures one."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/stepscope/" in frame.filename]
    where = f"{frames[-1].filename.rpartition('/stepscope/')[2]}:{frames[-1].lineno}" if frames else "?"
    return f"{type(error).__name__} at {where}: {(str(error).splitlines() or [''])[0][:120]}"


@contextmanager
def limited() -> Iterator[None]:
    """Raise TooSlow beyond the time that a question may take."""
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"more than {MOST_SECONDS} s")


def memory(name: str) -> int:
    """A line of this process's status, in bytes: VmHWM is the peak, VmRSS what is in use."""
    line = next(line for line in _MEMORY.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def case(number: int, seed: int, traces: list[tuple[str, bytes]], folder: Path) -> tuple[Outcome, Path]:
    """One trace, damaged and tried; the file is left there."""
    chance = random.Random(f"{seed}:{number}")
    name, trace = chance.choice(traces)
    path = folder / f"case-{number}-{name.removesuffix('.gz')}"
    path.write_bytes(damaged(trace, chance))
    _FORGET.write_text("5")
    before = memory("VmRSS")
    outcome = tried(path, chance)
    grown = memory("VmHWM") - before
    if grown > MOST_MEMORY:
        outcome.failures.append(("memory", f"more than {MOST_MEMORY} bytes"))
    return outcome, path


def run_cases(first: int, cases: int, seed: int) -> Counter[str]:
    """Try cases one by one and print what fails; returns how often what happened."""
    traces = [*own_traces(), *corpus()]
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        for number in range(first, first + cases):
            outcome, path = case(number, seed, traces, Path(folder))
            counts["cases"] += 1
            counts["refused"] += outcome.refused
            counts.update(f"? {name}" for name in outcome.asked)
            for where in dict.fromkeys(what for _, what in outcome.failures):
                if not counts[f"! {where}"]:
                    FOUND.mkdir(parents=True, exist_ok=True)
                    (FOUND / path.name).write_bytes(path.read_bytes())
                    asked = next(name for name, what in outcome.failures if what == where)
                    print(f"--first {number} --cases 1 ({path.name}), {asked}: {where}", flush=True)
                counts[f"! {where}"] += 1
            counts["failed"] += bool(outcome.failures)
            path.unlink()
            if counts["cases"] % 50 == 0:
                gc.collect()
    return counts


def told(counts: Counter[str]) -> str:
    """The figure in one line."""
    least = min((counts[name] for name in counts if name.startswith("? ")), default=0)
    return (
        f"{counts['cases']} cases, {counts['refused']} refused, each question asked {least} times or more, "
        f"{counts['failed']} failed; kept in {FOUND}"
    )


@dataclass(slots=True)
class Batch:
    """Cases in a process of their own."""

    first: int
    cases: int
    process: "subprocess.Popen[str]"

    @classmethod
    def start(cls, first: int, cases: int, seed: int) -> "Batch":
        words = [sys.executable, __file__, f"--first={first}", f"--cases={cases}", f"--seed={seed}", "--counts"]
        environment = {"POLARS_MAX_THREADS": "1", **os.environ}  # small tables gain nothing by more
        return cls(first, cases, subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment))

    def counts(self) -> Counter[str]:
        """Wait for it; what it prints besides is printed. Where it dies that is a failure."""
        output, _ = self.process.communicate()
        *failures, last = output.splitlines() or [""]
        print(*failures, sep="\n", end="\n" * bool(failures))
        if self.process.returncode:
            print(f"the process of {self.cases} cases from {self.first} on ended with {self.process.returncode}")
            return Counter({"failed": 1, f"! process ended with {self.process.returncode}": 1})
        return Counter(json.loads(last))


def batches(first: int, cases: int, seed: int, jobs: int, minutes: float) -> Iterator[tuple[Batch, Counter[str]]]:
    """Each batch with its counts, `jobs` at a time; none is begun after so many minutes."""
    until, running = time.monotonic() + minutes * 60, list[Batch]()
    for start in range(first, first + cases, BATCH):
        if len(running) == jobs:
            yield running[0], running.pop(0).counts()
        if time.monotonic() > until:
            break
        running.append(Batch.start(start, min(BATCH, first + cases - start), seed))
    for batch in running:
        yield batch, batch.counts()


class Ledger:
    """What has been tried, a line for each batch; without a file it is forgotten."""

    def __init__(self, path: Path | None) -> None:
        self._path, self.next, self.total = path, 0, Counter[str]()
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self.next = max(self.next, row["end"])
                self.total.update(row["counts"])

    def enter(self, batch: Batch, counts: Counter[str]) -> None:
        """A batch has been tried."""
        self.total.update(counts)
        if self._path is not None:
            commit = subprocess.run(_COMMIT, capture_output=True, text=True, check=False).stdout.strip()
            row = {"first": batch.first, "end": batch.first + batch.cases, "commit": commit, "counts": counts}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000, help="in all, those of the ledger counted in")
    parser.add_argument("--first", type=int, help="number of the first case; the ledger's next if it is not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=60, help="begin no batch after so many")
    parser.add_argument("--ledger", type=Path, help="file with what has been tried")
    parser.add_argument("--counts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counts:
        warnings.simplefilter("error")
        print(json.dumps(run_cases(options.first, options.cases, options.seed)))
        return
    ledger = Ledger(options.ledger)
    first = ledger.next if options.first is None else options.first
    cases = max(0, options.cases - ledger.total["cases"])
    for batch, counts in batches(first, cases, options.seed, options.jobs, options.minutes):
        ledger.enter(batch, counts)
        print(told(ledger.total), flush=True)
    sys.exit(ledger.total["failed"] > 0)


if __name__ == "__main__":
    main()
