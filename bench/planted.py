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
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SCENARIOS = Path(__file__).parent.parent / "scenarios"
MARK = "# planted"
CEILING = 0.1  # of what leaving the code out saves
ROUNDING = 0.005  # of either end: what three digits hide


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


def _healthy(*bounds: str) -> Planted:
    """Nothing to find."""
    return Planted(bounds=("host", "device", "balanced", *bounds), rules=())


def _ranks(*rules: str) -> Planted:
    """A problem of two processes; gloo's calls are made on the host, and hidden behind computing in part."""
    return Planted(bounds=("communication", "host", "device", "balanced"), rules=rules)


PLANTED = {
    "slow_transform": _input("slow-transform", "input-bound", "too-many-workers"),
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
    "input_queries": _input("queries-per-sample"),
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
    "few_cores": _loop("few-cores"),
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
    "graph_breaks": _loop("graph-breaks"),
    "text_in_step": _loop("parsing-in-loop", bounds=("host",)),
    "helper_thread": _loop("gil-contention"),
    "forward_hooks": _loop("slow-hooks"),
    "zeroed_gradients": _loop("zeroed-gradients"),
    "page_faults": _loop("page-faults"),
    "validation_stall": _loop("periodic-stall"),
    "trainer_evaluation": _loop("periodic-stall"),
    "trainer_tokenizing": _input("slow-transform", "python-tokenizing"),
    "lightning_metric": _loop("scalar-reads"),
    "fsdp_resharding": _ranks("fsdp-resharding"),
    "ddp_accumulation": _ranks("accumulation-without-no-sync"),
    "ddp_parameter_reduce": _ranks("small-collectives"),
    "ddp_scalar_reduce": _ranks("small-collectives"),
    "ddp_straggler": _ranks("straggler"),
    **dict.fromkeys(("healthy_gpt", "healthy_rnn", "healthy_gan", "healthy_sparse", "healthy_compiled"), _healthy()),
    **dict.fromkeys(("healthy", "healthy_accumulation", "healthy_validation"), _healthy()),
    **dict.fromkeys(("healthy_trainer", "healthy_lightning"), _healthy()),
    "healthy_ddp": _healthy("communication"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether bound and rule are right, whether the first place is a planted line, what was said, and where."""

    right: bool
    line: bool
    said: str
    first: str


def planted_lines(name: str) -> set[tuple[str, int]]:
    """File and number of the planted lines of a scenario, and of those that it is made from."""
    if not PLANTED[name].rules:
        return set()
    paths = [path for module in (name, *imports(name)) if (path := SCENARIOS / f"{module}.py").exists()]
    return {
        (str(path), number)
        for path in paths
        for number, text in enumerate(path.read_text().splitlines(), 1)
        if text.rstrip().endswith(MARK)
    }


def imports(name: str) -> list[str]:
    """The packages and modules that a scenario imports."""
    return re.findall(r"^(?:from|import) (\w+)", (SCENARIOS / f"{name}.py").read_text(), re.M)


def installed(name: str) -> bool:
    """Whether what a scenario imports is there; says so where it is not."""
    lacking = [one for one in imports(name) if not (SCENARIOS / f"{one}.py").exists() and find_spec(one) is None]
    if lacking:
        print(f"{name:24} left out: needs {', '.join(lacking)}", flush=True)
    return not lacking


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What the first finding promised and what the change saved, in ns per step, and the slow script's mean step.

    `ceiling`: the promise is that of the code gone, as its replacement is unknown. It holds where it ends within
    CEILING of what leaving the code out saved. A range holds what was saved.
    """

    low: float
    high: float
    saved: float
    step: float
    ceiling: bool

    @property
    def holds(self) -> bool:
        if self.ceiling:
            return abs(self.high - self.saved) <= CEILING * self.saved
        return self.low * (1 - ROUNDING) <= self.saved <= self.high * (1 + ROUNDING)

    @property
    def texts(self) -> tuple[str, str]:
        """Promised and measured, in per cent of the step."""
        low, high, saved = (f"{100 * part / self.step:.0f}" for part in (self.low, self.high, self.saved))
        return f"up to {high} %" if self.ceiling else f"{low}–{high} %", f"{saved} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A scenario's name, the judgements of its rounds, what recording added in s, and the gain, where it was taken."""

    name: str
    rounds: tuple[Judgement, ...]
    longer: float | None = None
    gain: Saved | None = None

    @property
    def right(self) -> int:
        return sum(one.right for one in self.rounds)

    @property
    def lines(self) -> int:
        return sum(one.line for one in self.rounds)

    @property
    def row(self) -> str:
        """A row of Markdown."""
        of = len(self.rounds)
        told = (*self.gain.texts, "yes" if self.gain.holds else "no") if self.gain else ("", "", "")
        bound, _, rule = self.rounds[0].said.partition("; ")
        cells = (f"`{self.name}`", bound, rule, f"{self.right} of {of}", f"{self.lines} of {of}", *told)
        return f"| {' | '.join(cells)} |"


HEAD = """| scenario | limit | first finding | right | its line | predicted | measured | holds |
|---|---|---|---|---|---|---|---|"""


def saved_of(slow: list[dict[str, Any]], fast: list[dict[str, Any]]) -> Saved | None:
    """The gain that the reports predict and what was saved of the mean step: medians of the rounds.

    A prediction counts as its share of the step that it is of; rounds with another rule first do not count.
    """
    gain, rule = slow[0]["findings"][0]["gain"], slow[0]["findings"][0]["rule"]
    if gain is None:
        return None
    firsts = [report["findings"][0] for report in slow if report["findings"]]
    gains = [first["gain"] for first in firsts if first["rule"] == rule and first["gain"]]
    whole = gain["pool"] == "repeated-steps"  # there are fewer steps, each as long as before
    pairs = zip(slow, fast, strict=True)
    shorter = statistics.median(_mean(before) - _mean(after) for before, after in pairs)
    step = statistics.median(map(_mean, slow))
    all_steps = statistics.median(map(_mean, fast)) * fast[0]["run"]["steps"] / slow[0]["run"]["steps"]
    saved = step - all_steps if whole else shorter
    low, high = (statistics.median(one[end] / one["step_ns"] for one in gains) for end in ("low_ns", "high_ns"))
    return Saved(low=low * step, high=high * step, saved=saved, step=step, ceiling=bool(gain["curve"]))


def _mean(report: dict[str, Any]) -> float:
    mean: float = report["run"]["step_ns"]["mean"]
    return mean


def show(outcome: Outcome) -> None:
    of, first = len(outcome.rounds), outcome.rounds[0]
    marks = f"{f'{outcome.right} right' if outcome.right == of else 'WRONG':7} "
    marks += f"{f'{outcome.lines} line' if outcome.lines == of else 'NO LINE':7}"
    longer = "" if outcome.longer is None else f"{outcome.longer:+5.2f} s longer"
    print(f"{outcome.name:24} {marks} {longer}  {first.said:32} {first.first}", flush=True)
    for one in outcome.rounds[1:]:
        if not (one.right and one.line):
            print(f"{'':24} another round: {one.said}; {one.first}", flush=True)
    if outcome.gain:
        predicted, measured = outcome.gain.texts
        held = "holds" if outcome.gain.holds else "MISSES"
        print(f"   predicted {predicted} of {outcome.gain.step / 1e6:.1f} ms, saved {measured}: {held}", flush=True)


def try_out(name: str, rounds: int, gains: bool) -> Outcome:
    """Run a scenario bare, under stepscope and, for the gains, changed, in turn.

    The change is the fix; where the finding tells what is saved without the code, it is gone, if the script can do so.
    """
    path = SCENARIOS / f"{name}.py"
    script = [sys.executable, str(path)]
    bare, slow, changed = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            bare.append(timed(script, folder))
            slow.append(recorded(script, Path(folder) / f"slow{turn}"))
            first = next(iter(slow[0]["findings"]), None)
            if gains and first and first["gain"]:
                gone = first["gain"]["curve"] and "--without" in path.read_text()
                words = [*script, "--without" if gone else "--fixed"]
                changed.append(recorded(words, Path(folder) / f"changed{turn}"))
    outcome = Outcome(
        name=name,
        rounds=tuple(judge(name, report) for report in slow),
        longer=statistics.median(report["longer"] - alone for report, alone in zip(slow, bare, strict=True)),
        gain=saved_of(slow, changed) if changed else None,
    )
    show(outcome)
    return outcome


def place_of(name: str, runs: Path, again: bool, steps: int | None) -> Outcome | None:
    """Judge a recorded run of a scenario; None: with `again`, of which there is none."""
    run = runs / name
    if again and not (run / "end.json").exists():
        return None
    if not again:
        words = [] if steps is None else ["--steps", str(steps)]
        script = [sys.executable, str(SCENARIOS / f"{name}.py"), *words]
        timed([sys.executable, "-m", "stepscope", "run", "--no-report", "--out", str(run), "--", *script], str(runs))
    outcome = Outcome(name=name, rounds=(judge(name, report_of(str(run))),))
    show(outcome)
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLANTED), help=", ".join(PLANTED))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--gains", action="store_true", help="run the fixed scripts too, and compare what they save")
    parser.add_argument("--places", action="store_true", help="record once, take no times: a busy machine will do")
    parser.add_argument("--runs", type=Path, help="folder for the runs of --places")
    parser.add_argument("--again", action="store_true", help="of --places: judge the runs that are there")
    parser.add_argument("--table", type=Path, help="write the outcomes as a table in Markdown")
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
            if installed(name)
        ]
    known = [one for one in found if one is not None]
    of = sum(len(one.rounds) for one in known)
    print(f"the very line: {sum(one.lines for one in known)} of {of}; ", end="")
    print(f"bound and rule: {sum(one.right for one in known)} of {of}")
    gains = [one.gain for one in known if one.gain]
    if gains:
        print(f"gains that hold: {sum(gain.holds for gain in gains)} of {len(gains)}")
    if options.table:
        options.table.write_text("\n".join((HEAD, *(one.row for one in known))) + "\n")


if __name__ == "__main__":
    main()
