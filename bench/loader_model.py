"""Steps predicted from a run with a slow input pipeline, against the measured steps of the mended one.

python bench/loader_model.py                                   # all scenarios, slow and fixed in turn
python bench/loader_model.py input_slow_reads --rounds 5       # the median of five runs of each
python bench/loader_model.py input_slow_transform --workers 0:4    # other workers, from the run with its own number
python bench/loader_model.py input_slow_transform --workers 0:4 --calibrate 3    # and from that with three as well

`others` is the most that programs outside the job used of the cores in any of the runs; with more than a few per cent
the numbers say little. A transform that is mended is predicted with the factor that the mended run measured for it:
nobody knows it before.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCENARIOS = Path(__file__).parent.parent / "scenarios"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """What --fixed of a scenario changes: options of the prediction, and calls whose factor is measured."""

    options: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()


MENDED = {
    "input_no_workers": Mended(options=("--workers", "1")),
    "input_few_workers": Mended(options=("--workers", "2")),
    "input_too_many_workers": Mended(options=("--workers", "1")),
    "input_slow_reads": Mended(options=("--workers", "6")),
    "input_slow_transform": Mended(calls=("Smooth",)),
    "input_crop_last": Mended(calls=("Convert", "Crop")),
    "input_slow_collate": Mended(stages=("collate",)),
    "input_large_batches": Mended(stages=("collate", "serialize")),
    "input_restarted_workers": Mended(options=("--persistent",)),
    "input_repeated_opening": Mended(options=("--without", "read")),
    "input_uneven_samples": Mended(options=("--prefetch", "8")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run, its mean steady step in ns, and the cores that others used of those there are."""

    path: Path
    step: float
    others: float


def stepscope(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "stepscope", *words], check=False, capture_output=True, text=True)


def rows(*words: str) -> list[dict[str, Any]]:
    """The rows of a table; none, and what was said instead, where it cannot be made."""
    done = stepscope(*words, "--format", "json")
    if done.returncode:
        print("   " + " ".join(done.stderr.split()))
        return []
    found: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return found


def record(name: str, path: Path, *options: str) -> Recorded:
    script = [sys.executable, str(SCENARIOS / f"{name}.py"), *options]
    done = stepscope("run", "--quiet", "--loader", "on", "--trace", "none", "--out", str(path), "--", *script)
    if done.returncode:
        raise SystemExit(f"{name} {' '.join(options)}: {done.stderr}")
    watched = rows("show", "core_waits", str(path))[0]
    return Recorded(path=path, step=watched["step"], others=watched["others"] / watched["cores"])


def factors(mended: Mended, slow: Path, fixed: Path) -> list[str]:
    """--faster for each call or stage, as much as its mean own time is shorter in the mended run."""
    words = []
    for table, what, time, names in (
        ("loader_transforms", "name", "own", mended.calls),
        ("loader_stages", "stage", "wall", mended.stages),
    ):
        for wanted in names:
            means = [
                row[time] / row["count"]
                for run in (slow, fixed)
                for row in rows("show", table, str(run))
                if row[what].rpartition(".")[2] == wanted
            ]
            if len(means) == 2:
                words += ["--faster", f"{wanted}={means[0] / means[1]:.3f}"]
            else:
                print(f"   {wanted} was not recorded in both runs: not predicted")
    return words


def tell(label: str, before: Recorded, found: dict[str, Any] | None, after: list[Recorded]) -> None:
    """One line: the step as recorded, predicted with its range, and measured."""
    measured = statistics.median(run.step for run in after) / 1e6
    others = max(run.others for run in (before, *after))
    if found is None:
        print(
            f"{label:26} {before.step / 1e6:7.1f} ms, refused; measured {measured:.1f}   others {others:.0%}",
            flush=True,
        )
        return
    step, low, high = (found[key] / 1e6 for key in ("step", "low", "high"))
    held = "holds" if low <= measured <= high else "MISSES"
    print(
        f"{label:26} {before.step / 1e6:7.1f} ms, predicted {step:6.1f} [{low:6.1f}, {high:6.1f}], measured "
        f"{measured:6.1f}: {step / measured - 1:+6.1%} {held:6}  {found['limited_by']:10} others {others:.0%}",
        flush=True,
    )


def try_fix(name: str, rounds: int, folder: Path) -> None:
    slow, fixed = [], []
    for turn in range(rounds):
        slow.append(record(name, folder / f"slow{turn}"))
        fixed.append(record(name, folder / f"fixed{turn}", "--fixed"))
    calmest = min(slow, key=lambda run: run.others)
    words = [*MENDED[name].options, *factors(MENDED[name], calmest.path, fixed[0].path)]
    found = rows("predict", "loader", str(calmest.path), *words)
    kept = [row for row in found if "--workers" in words or row["recorded"]]
    tell(name, calmest, kept[0] if kept else None, fixed)


def try_workers(name: str, numbers: list[int], rounds: int, others: list[int], folder: Path) -> None:
    """Each number of workers measured, and predicted from the run with the scenario's own number."""
    own = [record(name, folder / f"own{turn}") for turn in range(rounds)]
    calmest = min(own, key=lambda run: run.others)
    runs = {
        number: [
            record(name, folder / f"{number}-{turn}", "--workers", str(number)) for turn in range(rounds)
        ]
        for number in dict.fromkeys((*numbers, *others))
    }  # fmt: skip
    known = [word for number in others for word in ("--calibrate", str(runs[number][0].path))]
    wanted = ",".join(map(str, numbers))
    found = {row["workers"]: row for row in rows("predict", "loader", str(calmest.path), "--workers", wanted, *known)}
    for number in numbers:
        tell(f"{name.removeprefix('input_')} W={number}", calmest, found.get(number), runs[number])


def numbers_of(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    return list(range(int(first), int(last) + 1)) if colon else [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(MENDED), help=", ".join(MENDED))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", help="measure and predict these, such as 0:4, instead of the fix")
    parser.add_argument("--calibrate", help="with --workers: runs with these numbers tell what busy cores cost")
    options = parser.parse_args()
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            if options.workers:
                others = numbers_of(options.calibrate) if options.calibrate else []
                try_workers(name, numbers_of(options.workers), options.rounds, others, Path(folder))
            else:
                try_fix(name, options.rounds, Path(folder))


if __name__ == "__main__":
    main()
