"""Steps predicted from a run with a slow input pipeline, against the measured steps of the fixed one.

python bench/loader_model.py                                   # all scenarios, slow and fixed in turn
python bench/loader_model.py input_slow_reads --rounds 5       # medians of five runs of each, and of five predictions
python bench/loader_model.py input_slow_transform --workers 0:4    # other workers, from the run with its own number
python bench/loader_model.py input_slow_reads --batch 16,64    # another batch size, in scenarios with --batch
python bench/loader_model.py --folder DIR --record             # make the runs only: nothing else is to run meanwhile
python bench/loader_model.py --folder DIR                      # those of DIR, and what is not there yet

Each prediction is made from one run alone, and again with a trial of its own (`stepscope predict loader --calibrate`).
In brackets are the range of the prediction, and the shortest and longest of the runs that were measured: these differ
though they are of one script, and a prediction cannot be nearer to one of them than they are to each other. `others`
is the most that programs outside the job used of the cores in any of the runs; with more than a few per cent the
numbers say little. A transform that is fixed is predicted with the factor that the fixed run measured for it: nobody
knows it before.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import polars as pl

from stepscope.analyses.input_pipeline.loader_stages import loader_stages
from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.analyses.lib.cores import job_cores
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.cli._job_monitor import watch
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.experiments.calibration import kept_trial, make_trial
from stepscope.models.loader_model import LoaderChange
from stepscope.models.loader_table import loader_table
from stepscope.storage import open_run

SCENARIOS = Path(__file__).parent.parent / "scenarios"


AS_IT_IS = LoaderChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What --fixed of a scenario changes, and calls and stages whose factor is measured."""

    change: LoaderChange = AS_IT_IS
    calls: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()


FIXES = {
    "input_no_workers": Fix(change=LoaderChange(workers=1)),
    "input_few_workers": Fix(change=LoaderChange(workers=2)),
    "input_too_many_workers": Fix(change=LoaderChange(workers=0)),
    "input_slow_reads": Fix(change=LoaderChange(workers=6)),
    "input_slow_transform": Fix(calls=("Smooth",)),
    "input_crop_last": Fix(calls=("Convert", "Crop")),
    "input_slow_collate": Fix(stages=("collate",)),
    "input_large_batches": Fix(change=LoaderChange(faster=(("batch", 8.0),))),
    "input_restarted_workers": Fix(change=LoaderChange(persistent=True)),
    "input_repeated_opening": Fix(change=LoaderChange(faster=(("read", inf),))),
    "input_uneven_samples": Fix(change=LoaderChange(prefetch=8)),
    "input_python_tokenizing": Fix(change=LoaderChange(faster=(("WordPieces", inf),)), calls=("Texts",)),
}


Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run, its mean steady step in ns, and the cores that others used of those there are."""

    path: Path
    run: Run
    step: float
    others: float


def record(name: str, path: Path, *options: str, trial: bool = False) -> Path:
    """The run of a scenario, made if it is not there, and with `trial` one of it."""
    if not (path / "end.json").exists():
        script = [sys.executable, str(SCENARIOS / f"{name}.py"), *options]
        words = ("run", "--quiet", "--loader", "on", "--trace", "none", "--out", str(path), "--", *script)
        done = subprocess.run(
            [sys.executable, "-m", "stepscope", *words], check=False, capture_output=True, text=True
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{name} {' '.join(options)}: {done.stderr}")
    if trial and kept_trial(str(path)) is None:
        make_trial(str(path), watch, lambda: None)
    return path


def opened(path: Path) -> Recorded:
    run = open_run(path)
    steps = enough_steps(run)
    samples = run.table("system", how="").filter(pl.col("what") == "other CPU")
    within = samples.filter(pl.col("time") >= steps["start"].min())  # none where training took less than a second
    others, step = (within if within.height else samples)["value"].mean(), steps["duration"].mean()
    assert isinstance(step, float)
    assert isinstance(others, float)
    return Recorded(path=path, run=run, step=step, others=others / (job_cores(run) or 1))


def factors(fix: Fix, slow: Run, fixed: Run) -> tuple[tuple[str, float], ...]:
    """Each call or stage, and how many times as long its mean own time is as in the fixed run."""
    found = []
    for table, what, time, names in (
        (loader_transforms, "name", "own", fix.calls),
        (loader_stages, "stage", "wall", fix.stages),
    ):
        for wanted in names:
            means = [
                row[time] / row["count"]
                for run in (slow, fixed)
                for row in table(run).iter_rows(named=True)
                if row[what].rpartition(".")[2] == wanted
            ]
            if len(means) == 2:
                found.append((wanted, means[0] / means[1]))
            else:
                print(f"   {wanted} was not recorded in both runs: not predicted")
    return tuple(found)


def predicted(before: Recorded, change: LoaderChange, workers: Sequence[int]) -> list[dict[int, Row]]:
    """Rows by workers, from the run alone, and from it and its trial; none, which is said, where there is no answer."""
    trial = kept_trial(str(before.path))
    found = []
    for other in (None, open_run(trial) if trial else None):
        try:
            table = loader_table(before.run, workers, change, other)
        except MissingData as refused:
            print(f"   {refused}")
            found.append({})
        else:
            found.append({row["workers"]: row for row in table.iter_rows(named=True)})
    return found


def tell(label: str, before: list[Recorded], found: list[Row | None], after: list[Recorded]) -> None:
    """One line: the step as recorded, predicted with its range, and measured; medians of the rounds."""
    steps = [run.step / 1e6 for run in after]
    measured, now = statistics.median(steps), statistics.median(run.step / 1e6 for run in before)
    spread = f"{measured:6.1f} ({min(steps):.1f} to {max(steps):.1f})"
    others = max(run.others for run in (*before, *after))
    known = [row for row in found if row is not None]
    if not known:
        print(f"{label:31} {now:6.1f} ms, refused; measured {spread}   others {others:.0%}", flush=True)
        return
    step, low, high = (statistics.median(row[key] / 1e6 for row in known) for key in ("step", "low", "high"))
    held = "holds" if low <= measured <= high else "MISSES"
    refused = f", {len(found) - len(known)} refused" if len(known) < len(found) else ""
    print(
        f"{label:31} {now:6.1f} ms, predicted {step:6.1f} [{low:6.1f}, {high:6.1f}]{refused}, measured {spread}: "
        f"{step / measured - 1:+6.1%} {held:6}  {known[0]['limited_by']:10} others {others:.0%}",
        flush=True,
    )


def record_fix(name: str, rounds: int, folder: Path) -> tuple[list[Path], list[Path]]:
    slow, fixed = [], []
    for turn in range(rounds):
        slow.append(record(name, folder / f"{name}-slow{turn}", trial=True))
        fixed.append(record(name, folder / f"{name}-fixed{turn}", "--fixed"))
    return slow, fixed


def tell_fix(name: str, paths: tuple[list[Path], list[Path]]) -> None:
    slow, fixed = ([opened(path) for path in side] for side in paths)
    fix, found = FIXES[name], []
    for before, after in zip(slow, fixed, strict=True):
        faster = (*fix.change.faster, *factors(fix, before.run, after.run))
        change = replace(fix.change, faster=faster, workers=None)
        own = before.run.table("loaders", how="")["num_workers"][0]
        workers = own if fix.change.workers is None else fix.change.workers
        found.append([rows.get(workers) for rows in predicted(before, change, [workers])])
    for label, column in zip((name, f"{name}, trial"), zip(*found, strict=True), strict=True):
        tell(label.removeprefix("input_"), slow, list(column), fixed)


def record_others(
    name: str, option: str, numbers: list[int], rounds: int, folder: Path
) -> tuple[list[Path], list[list[Path]]]:
    """Runs of the scenario as it is, and with each of the numbers given to the option."""
    own, others = [], []
    for turn in range(rounds):
        own.append(record(name, folder / f"{name}-own{turn}", trial=True))
        others.append([record(name, folder / f"{name}-{option}{n}-{turn}", f"--{option}", str(n)) for n in numbers])
    return own, others


def tell_others(name: str, option: str, numbers: list[int], paths: tuple[list[Path], list[list[Path]]]) -> None:
    """Each number of workers, or of samples in a batch, measured and predicted from the runs with the own number."""
    own = [opened(path) for path in paths[0]]
    measured = [[opened(path) for path in turn] for turn in paths[1]]
    for place, number in enumerate(numbers):
        found = [other_number(one, option, number) for one in own]
        for trial, label in enumerate(("", ", trial")):
            rows = [turn[trial] for turn in found]
            after = [turn[place] for turn in measured]
            tell(f"{name.removeprefix('input_')} {option}={number}{label}", own, rows, after)


def other_number(before: Recorded, option: str, number: int) -> list[Row | None]:
    workers = before.run.table("loaders", how="")["num_workers"][0]
    if option == "workers":
        return [rows.get(number) for rows in predicted(before, AS_IT_IS, [number])]
    return [rows.get(workers) for rows in predicted(before, LoaderChange(batch_size=number), [workers])]


def numbers_of(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    return list(range(int(first), int(last) + 1)) if colon else [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(FIXES), help=", ".join(FIXES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", help="measure and predict these, such as 0:4, instead of the fix")
    parser.add_argument("--batch", help="measure and predict batches of so many samples, such as 8,64")
    parser.add_argument("--folder", type=Path, help="keep the runs here; those that are there are not made again")
    parser.add_argument("--record", action="store_true", help="with --folder: make the runs only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = options.folder or Path(passing)
        for name in options.names:
            others = "workers" if options.workers else "batch" if options.batch else ""
            if others:
                numbers = numbers_of(options.workers or options.batch)
                made = record_others(name, others, numbers, options.rounds, folder)
                if not options.record:
                    tell_others(name, others, numbers, made)
            else:
                pairs = record_fix(name, options.rounds, folder)
                if not options.record:
                    tell_fix(name, pairs)


if __name__ == "__main__":
    main()
