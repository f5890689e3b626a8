"""Seven scripts, one planted problem each, one of them healthy: does the report name category and line, at what cost?

python bench/planted.py                    # every scenario once bare and once under stepscope
python bench/planted.py --rounds 3 slow_line healthy
"""

import argparse
import json
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
    """What a right report says: its bounds, the rule on top (None: no finding at all) and the line it points to."""

    bounds: tuple[str, ...]
    rule: str | None
    symbols: tuple[str, ...] = ()


PLANTED = {
    "slow_transform": Planted(bounds=("input",), rule="input-bound"),
    "slow_collate": Planted(bounds=("input",), rule="input-bound", symbols=("tolist()", "torch.tensor(rows)")),
    "checkpoint_stall": Planted(bounds=("host",), rule="periodic-stall", symbols=("torch.save(", "save(model")),
    "logging_stall": Planted(bounds=("host",), rule="host-bound", symbols=("json.dumps(", "tolist()", "log(file")),
    "slow_optimizer": Planted(bounds=("host",), rule="single-tensor-optimizer", symbols=("optimizer.step()",)),
    "slow_line": Planted(bounds=("host",), rule="host-bound", symbols=("total += ", "for value in", "brightness(")),
    "healthy": Planted(bounds=("device", "balanced"), rule=None),
}


def timed(command: list[str], folder: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return time.perf_counter() - began


def judge(planted: Planted, report: dict[str, Any]) -> tuple[bool, bool, str]:
    """Whether bound and rule are right, whether the first place is the culprit's line, and what was said."""
    verdict, findings = report["verdict"], report["findings"]
    top = findings[0] if findings else None
    where = top["where"][0] if top and top["where"] else None
    source = Path(where["file"]).read_text().splitlines()[where["line"] - 1].strip() if where else ""
    right = verdict["bound"] in planted.bounds and (top["rule"] if top else None) == planted.rule
    line = not planted.symbols or any(symbol in source for symbol in planted.symbols)
    said = "; ".join((str(verdict["bound"]), top["rule"] if top else "no finding", source or "no line"))
    return right, line, said


def report_of(run: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "stepscope", "report", run, "--format", "json"]
    report: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report


def gain_of(report: dict[str, Any], script: list[str], folder: str) -> str:
    """The gain that was predicted against the mean step that the fixed script saves."""
    gain = report["findings"][0]["gain"]
    run = str(Path(folder) / "fixed")
    timed([sys.executable, "-m", "stepscope", "run", "--out", run, "--", *script, "--fixed"], folder)
    before, after = (each["run"]["step_ns"]["mean"] for each in (report, report_of(run)))
    low, high, saved = (value / 1e6 for value in (gain["low_ns"], gain["high_ns"], before - after))
    held = "holds" if low <= saved <= high else "MISSES"
    return f"   predicted {low:.1f} to {high:.1f} ms of {before / 1e6:.1f}, saved {saved:.1f}: {held}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(PLANTED), help=", ".join(PLANTED))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--gains", action="store_true")
    options = parser.parse_args()
    for name in options.names:
        with tempfile.TemporaryDirectory() as folder:
            script = [sys.executable, str(SCENARIOS / f"{name}.py")]
            out = str(Path(folder) / "run")
            longer = []
            for turn in range(options.rounds):
                bare = timed(script, folder)
                with_probe = [sys.executable, "-m", "stepscope", "run", "--out", f"{out}{turn}", "--", *script]
                longer.append(timed(with_probe, folder) - bare)
            report = report_of(f"{out}0")
            right, line, said = judge(PLANTED[name], report)
            marks = f"{'right' if right else 'WRONG':5} {'line' if line else 'NO LINE':7}"
            print(f"{name:17} {marks} {statistics.median(longer):+5.2f} s longer   {said}", flush=True)
            if options.gains and report["findings"]:
                print(gain_of(report, script, folder), flush=True)


if __name__ == "__main__":
    main()
