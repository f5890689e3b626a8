"""Seven scripts, one planted problem each, one of them healthy: does the report name category and line, at what cost?

python bench/planted.py                    # every scenario once bare and once under stepscope
python bench/planted.py --rounds 3 --gains slow_line    # and the fixed script in turn: does the gain hold?
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What a right report says: its bounds, the rules that may be on top (none: no finding) and the line it names."""

    bounds: tuple[str, ...]
    rules: tuple[str, ...]
    symbols: tuple[str, ...] = ()


PLANTED = {
    "slow_transform": Planted(bounds=("input",), rules=("input-bound", "slow-transform")),
    "slow_collate": Planted(
        bounds=("input",), rules=("slow-collate", "input-bound"), symbols=("tolist()", "torch.tensor(rows)")
    ),
    "checkpoint_stall": Planted(bounds=("host",), rules=("periodic-stall",), symbols=("torch.save(", "save(model")),
    "logging_stall": Planted(bounds=("host",), rules=("host-bound",), symbols=("json.dumps(", "tolist()", "log(file")),
    "slow_optimizer": Planted(bounds=("host",), rules=("single-tensor-optimizer",), symbols=("optimizer.step()",)),
    "slow_line": Planted(bounds=("host",), rules=("host-bound",), symbols=("total += ", "for value in", "brightness(")),
    "healthy": Planted(bounds=("device", "balanced"), rules=()),
}


def timed(command: list[str], folder: str) -> float:
    """Wall time of a command in s, with compiled modules kept, as an installation has them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment)
    return time.perf_counter() - began


def judge(planted: Planted, report: dict[str, Any]) -> tuple[bool, bool, str]:
    """Whether bound and rule are right, whether the first place is the culprit's line, and what was said."""
    verdict, findings = report["verdict"], report["findings"]
    top = findings[0] if findings else None
    where = top["where"][0] if top and top["where"] else None
    source = Path(where["file"]).read_text().splitlines()[where["line"] - 1].strip() if where else ""
    right = verdict["bound"] in planted.bounds and (top["rule"] in planted.rules if top else not planted.rules)
    line = not planted.symbols or any(symbol in source for symbol in planted.symbols)
    said = "; ".join((str(verdict["bound"]), top["rule"] if top else "no finding", source or "no line"))
    return right, line, said


def report_of(run: str) -> dict[str, Any]:
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
    held = "holds" if gain["low_ns"] <= saved <= gain["high_ns"] else "MISSES"
    low, high, before, saved = (value / 1e6 for value in (gain["low_ns"], gain["high_ns"], means[0][0], saved))
    return f"   predicted {low:.1f} to {high:.1f} ms of {before:.1f}, saved {saved:.1f}: {held}"


def try_out(name: str, rounds: int, gains: bool) -> None:
    """Run a scenario bare, under stepscope and, for the gains, fixed, in turn."""
    script = [sys.executable, str(SCENARIOS / f"{name}.py")]
    bare, slow, fixed = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            bare.append(timed(script, folder))
            slow.append(recorded(script, Path(folder) / f"slow{turn}"))
            if gains and slow[0]["findings"]:
                fixed.append(recorded([*script, "--fixed"], Path(folder) / f"fixed{turn}"))
        right, line, said = judge(PLANTED[name], slow[0])
    marks = f"{'right' if right else 'WRONG':5} {'line' if line else 'NO LINE':7}"
    longer = statistics.median(report["longer"] - alone for report, alone in zip(slow, bare, strict=True))
    print(f"{name:17} {marks} {longer:+5.2f} s longer   {said}", flush=True)
    if fixed:
        print(gain_of(slow, fixed), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLANTED), help=", ".join(PLANTED))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--gains", action="store_true", help="run the fixed scripts too, and compare what they save")
    options = parser.parse_args()
    for name in options.names:
        try_out(name, options.rounds, options.gains)


if __name__ == "__main__":
    main()
