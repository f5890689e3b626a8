"""Fuzz all that reads a trace: the report, every analysis and the page's data over damaged traces, in one process.

A case is a trace (small ones written here, and the small ones of the corpus if there is one: STEPSCOPE_CORPUS, else
../shared) and one to three kinds of damage, drawn from a seed, so that it can be made again. It must end in an answer
or a refusal: no other exception and no warning, in 10 s of CPU and 1 GB of memory. Failures are grouped by their line;
of each the first trace is kept in the folder that the last line names.

Usage: python tools/fuzz_traces.py [--cases N] [--first N] [--seed N] [--jobs N] [--minutes N]
"""

import argparse
import gc
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
LARGEST_SEED = 150_000  # bytes, packed: larger ones take seconds each, and are damaged in the same ways
MOST_SECONDS = 10
MOST_MEMORY = 1 << 30  # bytes
_MEMORY = Path("/proc/self/status")
_FORGET = Path("/proc/self/clear_refs")  # 5 sets the peak back to what is in use


class TooSlow(BaseException):
    """A case took more than its time: no Exception, which code in between may catch."""


@dataclass(slots=True)
class Outcome:
    """What became of a case: refused or answered, and what failed, by where."""

    refused: bool = False
    failures: list[tuple[str, str]] = field(default_factory=list)


def corpus() -> list[tuple[str, bytes]]:
    """Names and bytes of the small traces that are there."""
    folder = Path(os.environ.get("STEPSCOPE_CORPUS", ROOT.parent / "shared")) / "traces"
    files = sorted(file for pattern in ("*.json", "*.json.gz") for file in folder.rglob(pattern) if file.is_file())
    return [(file.name, file.read_bytes()) for file in files if 0 < file.stat().st_size < LARGEST_SEED]


def tried(path: Path) -> Outcome:
    """Open a trace and ask everything of it."""
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
        outcome.failures.append(("open", told(error)))
        return outcome
    for name, ask in questions():
        try:
            with limited():
                ask(run)
        except StepscopeError:
            continue
        except (Exception, TooSlow, _panic()) as error:  # noqa: BLE001
            outcome.failures.append((name, told(error)))
    return outcome


def questions() -> Iterator[tuple[str, Callable[[Any], object]]]:
    """The report with its text, then every analysis as a table of the page, then the timeline."""
    import io

    from stepscope.render.json import dumps, report_document
    from stepscope.render.terminal import console_for
    from stepscope.render.terminal_card import print_report
    from stepscope.report.assemble import assemble
    from stepscope.timeline import excerpt
    from stepscope.web.routes.tables import ANALYSES, table_document

    def report(run: Any) -> None:
        document = assemble(run)
        dumps(report_document(document))
        print_report(console_for(io.StringIO()), document)

    yield "report", report
    for name in ANALYSES.names():
        yield name, partial(table_document, name=name)
    yield "timeline", lambda run: dumps(excerpt(run))


def _panic() -> type[BaseException]:
    import polars as pl

    return pl.exceptions.PanicException


def told(error: BaseException) -> str:
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
    outcome = tried(path)
    grown = memory("VmHWM") - before
    if grown > MOST_MEMORY:
        outcome.failures.append(("memory", f"more than {MOST_MEMORY} bytes"))
    return outcome, path


def run_cases(first: int, cases: int, seed: int, minutes: float) -> Counter[str]:
    """Try cases one by one and print what fails; returns how often what happened."""
    traces = [*own_traces(), *corpus()]
    counts: Counter[str] = Counter()
    until = time.monotonic() + minutes * 60
    with TemporaryDirectory() as folder:
        for number in range(first, first + cases):
            if time.monotonic() > until:
                break
            outcome, path = case(number, seed, traces, Path(folder))
            counts["cases"] += 1
            counts["refused"] += outcome.refused
            for where in dict.fromkeys(what for _, what in outcome.failures):
                if not counts[f"! {where}"]:
                    FOUND.mkdir(parents=True, exist_ok=True)
                    (FOUND / path.name).write_bytes(path.read_bytes())
                    asked = next(name for name, what in outcome.failures if what == where)
                    print(f"case {number} ({path.name}), {asked}: {where}", flush=True)
                counts[f"! {where}"] += 1
            counts["failed"] += bool(outcome.failures)
            path.unlink()
            if counts["cases"] % 50 == 0:
                gc.collect()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with so many cases")
    parser.add_argument("--minutes", type=float, default=60, help="stop then")
    options = parser.parse_args()
    warnings.simplefilter("error")
    if options.jobs > 1:
        words = [sys.executable, __file__, f"--cases={options.cases}", f"--seed={options.seed}"]
        words.append(f"--minutes={options.minutes}")
        firsts = (options.first + job * options.cases for job in range(options.jobs))
        processes = [subprocess.Popen([*words, f"--first={first}"]) for first in firsts]
        sys.exit(max(process.wait() for process in processes))
    counts = run_cases(options.first, options.cases, options.seed, options.minutes)
    print(f"{counts['cases']} cases, {counts['refused']} refused, {counts['failed']} failed; kept in {FOUND}")
    sys.exit(counts["failed"] > 0)


if __name__ == "__main__":
    main()
