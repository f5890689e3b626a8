"""Scripts with one planted problem each: does the report name the bound, a right rule, and first of all the very line?

python bench/planted.py                                    # every scenario once bare and once under stepscope
python bench/planted.py --rounds 3 --gains slow_line       # and the fixed script in turn: does the gain hold?
python bench/planted.py --places --runs /tmp/planted       # record each once, keep the runs; judge rule and line only
python bench/planted.py --places --runs /tmp/planted --again    # judge the runs that are there

Planted lines end in `# planted`. What counts is the first place of the first finding: file and line, as recorded.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCENARIOS = Path(__file__).parent.parent / "scenarios"
MARK = "# planted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What a right report says: its bounds, and the rules that may be on top (none: no finding)."""

    bounds: tuple[str, ...]
    rules: tuple[str, ...]


def _input(*rules: str) -> Planted:
    return Planted(bounds=("input",), rules=rules)


def _loop(*rules: str, bounds: tuple[str, ...] = ()) -> Planted:
    """A problem of the training loop; where the model runs on the CPU, its operators are the host's work, too."""
    return Planted(bounds=bounds or ("host", "device", "balanced"), rules=rules)


def _ranks(*rules: str) -> Planted:
    """A problem of two processes; gloo's calls are made on the host, and hidden behind computing in part."""
    return Planted(bounds=("communication", "host", "device", "balanced"), rules=rules)


PLANTED = {
    "slow_transform": _input("slow-transform", "input-bound"),
    "slow_collate": _input("slow-collate", "input-bound"),
    "checkpoint_stall": Planted(bounds=("host",), rules=("periodic-stall",)),
    "logging_stall": Planted(bounds=("host",), rules=("logging-each-step",)),
    "slow_optimizer": Planted(bounds=("host",), rules=("single-tensor-optimizer",)),
    "metric_loop": Planted(bounds=("host",), rules=("scalar-reads",)),
    "slow_line": Planted(bounds=("host",), rules=("host-bound", "scalar-reads")),
    "input_no_workers": _input("few-workers"),
    "input_few_workers": _input("few-workers"),
    "input_too_many_workers": Planted(bounds=("input", "device", "balanced"), rules=("too-many-workers",)),
    "input_slow_reads": _input("slow-storage"),
    "input_slow_transform": _input("slow-transform"),
    "input_crop_last": _input("crop-after-transform"),
    "input_slow_collate": _input("slow-collate"),
    "input_large_batches": Planted(bounds=("input", "host", "device"), rules=("batch-transfer",)),  # by the CPU's speed
    "input_restarted_workers": _input("worker-restarts"),
    "input_repeated_opening": _input("repeated-file-load"),
    "input_uneven_samples": _input("uneven-batches"),
    "input_python_tokenizing": _input("python-tokenizing"),
    "input_shared_lock": _input("lock-contention"),
    "input_slow_worker": _input("slow-worker"),
    "input_threaded_workers": _input("worker-oversubscription"),
    "input_unsharded_stream": Planted(
        bounds=("input", "device", "balanced"), rules=("unsharded-iterable", "too-many-workers")
    ),
    "gc_each_step": _loop("garbage-collector"),
    "anomaly_mode": _loop("anomaly-mode"),
    "one_thread": _loop("one-thread"),
    "many_threads": _loop("too-many-threads"),
    "sample_loop": _loop("sample-loop"),
    "time_loop": _loop("time-loop"),
    "parameter_loop": _loop("parameter-loop"),
    "scalar_reads": _loop("scalar-reads"),
    "small_batch": Planted(bounds=("host", "device", "balanced", "input"), rules=("small-batch",)),
    "float64_model": _loop("float64"),
    "dense_embedding": _loop("dense-embedding-gradient"),
    "naive_attention": _loop("unfused-attention"),
    "checkpointing": _loop("activation-checkpointing"),
    "deepcopy_best": _loop("state-copied-each-step"),
    "losses_kept": _loop("host-memory-growth"),
    "recompilation": _loop("recompilation"),
    "text_in_step": _loop("parsing-in-loop", bounds=("host",)),
    "helper_thread": _loop("gil-contention"),
    "forward_hooks": _loop("slow-hooks"),
    "validation_stall": _loop("periodic-stall"),
    "ddp_accumulation": _ranks("accumulation-without-no-sync"),
    "ddp_parameter_reduce": _ranks("small-collectives"),
    "ddp_scalar_reduce": _ranks("small-collectives"),
    "ddp_straggler": _ranks("straggler"),
    "healthy_gpt": Planted(bounds=("host", "device", "balanced"), rules=()),
    "healthy_rnn": Planted(bounds=("host", "device", "balanced"), rules=()),
    "healthy": Planted(bounds=("device", "balanced"), rules=()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether bound and rule are right, whether the first place is a planted line, what was said, and where."""

    right: bool
    line: bool
    said: str
    first: str


def planted_lines(name: str) -> set[tuple[str, int]]:
    """File and number of the planted lines of a scenario."""
    path = SCENARIOS / f"{name}.py"
    lines = path.read_text().splitlines()
    return {(str(path), number) for number, text in enumerate(lines, 1) if text.rstrip().endswith(MARK)}


def judge(name: str, report: dict[str, Any]) -> Judgement:
    """A report of a scenario, against what was planted."""
    planted, verdict, findings = PLANTED[name], report["verdict"], report["findings"]
    top = findings[0] if findings else None
    where = next((finding["where"][0] for finding in findings if finding["where"]), None)
    wanted = planted_lines(name)
    rule = top["rule"] if top else "no finding"
    right = verdict["bound"] in planted.bounds and (rule in planted.rules if planted.rules else top is None)
    place = f"{Path(where['file']).name}:{where['line']}" if where else "no line"
    told = f"{place} {where['text'][:60] if where else ''}".strip()
    line = (where["file"], where["line"]) in wanted if where else not wanted
    return Judgement(right=right, line=line, said=f"{verdict['bound']}; {rule}", first=told)


def timed(command: list[str], folder: str) -> float:
    """Wall time of a command in s, with compiled modules kept, as an installation has them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    return time.perf_counter() - began


def report_of(run: str) -> dict[str, Any]:
    """The report of a run. It is made where no script is: all that it says of lines is from the run."""
    command = [sys.executable, "-m", "stepscope", "report", run, "--format", "json"]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report


def recorded(script: list[str], run: Path) -> dict[str, Any]:
    """The report of the script under stepscope, with all defaults; `longer` is the time of the whole job in s."""
    longer = timed([sys.executable, "-m", "stepscope", "run", "--out", str(run), "--", *script], str(run.parent))
    return {**report_of(str(run)), "longer": longer}


def gain_of(reports: list[dict[str, Any]], fixed: list[dict[str, Any]]) -> str:
    """The gain that the first report predicts against what the fix saves of the mean step, median of the rounds."""
    gain = reports[0]["findings"][0]["gain"]
    means = [
        (slow["run"]["step_ns"]["mean"], fast["run"]["step_ns"]["mean"])
        for slow, fast in zip(reports, fixed, strict=True)
    ]
    saved = statistics.median(slow - fast for slow, fast in means)
    if gain is None:
        return f"   no gain predicted, saved {saved / 1e6:.1f} ms of {means[0][0] / 1e6:.1f}"
    held = "holds" if gain["low_ns"] <= saved <= gain["high_ns"] else "MISSES"
    low, high, before, saved = (value / 1e6 for value in (gain["low_ns"], gain["high_ns"], means[0][0], saved))
    return f"   predicted {low:.1f} to {high:.1f} ms of {before:.1f}, saved {saved:.1f}: {held}"


def show(name: str, found: Judgement, longer: str = "") -> None:
    marks = f"{'right' if found.right else 'WRONG':5} {'line' if found.line else 'NO LINE':7}"
    print(f"{name:24} {marks} {longer}  {found.said:32} {found.first}", flush=True)


def try_out(name: str, rounds: int, gains: bool) -> Judgement:
    """Run a scenario bare, under stepscope and, for the gains, fixed, in turn."""
    script = [sys.executable, str(SCENARIOS / f"{name}.py")]
    bare, slow, fixed = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            bare.append(timed(script, folder))
            slow.append(recorded(script, Path(folder) / f"slow{turn}"))
            if gains and slow[0]["findings"]:
                fixed.append(recorded([*script, "--fixed"], Path(folder) / f"fixed{turn}"))
    found = judge(name, slow[0])
    longer = statistics.median(report["longer"] - alone for report, alone in zip(slow, bare, strict=True))
    show(name, found, f"{longer:+5.2f} s longer")
    if fixed:
        print(gain_of(slow, fixed), flush=True)
    return found


def place_of(name: str, runs: Path, again: bool, steps: int | None) -> Judgement | None:
    """Judge a recorded run of a scenario; None: with `again`, of which there is none."""
    run = runs / name
    if again and not (run / "end.json").exists():
        return None
    if not again:
        words = [] if steps is None else ["--steps", str(steps)]
        script = [sys.executable, str(SCENARIOS / f"{name}.py"), *words]
        timed([sys.executable, "-m", "stepscope", "run", "--no-report", "--out", str(run), "--", *script], str(runs))
    found = judge(name, report_of(str(run)))
    show(name, found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLANTED), help=", ".join(PLANTED))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--gains", action="store_true", help="run the fixed scripts too, and compare what they save")
    parser.add_argument("--places", action="store_true", help="record once, take no times: a busy machine will do")
    parser.add_argument("--runs", type=Path, help="folder for the runs of --places")
    parser.add_argument("--again", action="store_true", help="of --places: judge the runs that are there")
    parser.add_argument("--steps", type=int, help="of --places: steps of each script")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = options.runs or Path(folder)
        runs.mkdir(parents=True, exist_ok=True)
        found = [
            place_of(name, runs, options.again, options.steps)
            if options.places
            else try_out(name, options.rounds, options.gains)
            for name in options.names
        ]
    known = [one for one in found if one is not None]
    lines, right = sum(one.line for one in known), sum(one.right for one in known)
    print(f"the very line: {lines} of {len(known)}; bound and rule: {right} of {len(known)}")


if __name__ == "__main__":
    main()
