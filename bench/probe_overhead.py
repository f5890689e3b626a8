"""What recording costs a training step: bare script, `stepscope run --trace none`, the same without what it records of
the loader, and TraceML, interleaved. The loop has a DataLoader without workers.

Each round runs every contender once, in rotating order; the table gives medians over rounds of the difference to the
bare run of the same round. Wall is the median step, CPU the process's own CPU time per step (all threads).

    python bench/probe_overhead.py                # 5 rounds, with TraceML from PyPI in its own environment
    python bench/probe_overhead.py --peer none    # without it
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
LOOP = HERE / "loop.py"
TORCH = "torch==2.13.0"
TRACEML = "traceml-ai==0.5.0"
KEEPS_MEMORY = {"MALLOC_TOP_PAD_": str(1 << 30)}  # page faults are more of a medium step than a recorder
STEPS = {"tiny": 20_000, "medium": 300}  # about 5 s: costs of the beginning are start-up, not steps


def traceml_environment() -> Path:
    """Python of an environment with TraceML, made on the first use."""
    folder = HERE.parent / ".bench-venv"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "traceml").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", TORCH], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", TRACEML], check=True)
    return python


def measure(command: list[str], folder: Path) -> dict[str, float]:
    """Run once; ns per step, start-up until the script's first line, and the whole job."""
    began = time.time_ns()
    kept = {**os.environ, **KEEPS_MEMORY}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=kept)
    whole = time.time_ns() - began
    line = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    figures: dict[str, float] = json.loads(line)
    return {**figures, "start": figures["began"] - began, "whole": whole}


def contenders(kind: str, peer: str, folder: Path) -> dict[str, list[str]]:
    script = [str(LOOP), kind, "--steps", str(STEPS[kind])]
    bare = [sys.executable, *script]
    recording = [sys.executable, "-m", "stepscope", "run", "--trace", "none"]
    commands = {
        "bare": bare,
        "stepscope": [*recording, "--", *bare],
        "no loader": [*recording, "--loader", "off", "--", *bare],
    }
    if peer == "traceml":
        python = traceml_environment()
        # The options of TraceML end at --args; it gets two edited lines in the loop, as its manual asks.
        commands["traceml"] = [
            str(python.parent / "traceml"), "run", "--logs-dir", str(folder / "traceml"), str(LOOP),
            "--args", *script[1:], "--traceml",
        ]  # fmt: skip
    return commands


def compare(kind: str, rounds: int, peer: str) -> dict[str, list[dict[str, float]]]:
    results: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        order = list(contenders(kind, peer, folder).items())
        for turn in range(rounds):
            for label, command in order[turn % len(order) :] + order[: turn % len(order)]:
                results.setdefault(label, []).append(measure(command, folder))
    return results


def show(kind: str, results: dict[str, list[dict[str, float]]]) -> None:
    bare = results["bare"]
    step = statistics.median(figures["p50"] for figures in bare)
    print(f"\n{kind}: bare step {step / 1e3:,.1f} µs (median of {len(bare)} rounds × {STEPS[kind]} steps)")
    heads = [f"{head:>12}" for head in ("wall p50", "wall p10", "wall mean", "CPU")]
    print(f"  {'':10} {' '.join(heads)} {'% of step':>10} {'start-up':>10} {'whole job':>10}")
    for label, runs in results.items():
        if label != "bare":
            delta = {
                key: statistics.median(r[key] - b[key] for r, b in zip(runs, bare, strict=True)) for key in bare[0]
            }
            micro = [f"{delta[key] / 1e3:+9.2f} µs" for key in ("p50", "p10", "mean", "cpu")]
            print(
                f"  {label:10} {' '.join(micro)} {100 * delta['p50'] / step:+9.2f}% "
                f"{delta['start'] / 1e6:+7.0f} ms {delta['whole'] / 1e6:+7.0f} ms"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", choices=("traceml", "none"), default="traceml")
    parser.add_argument("--kind", choices=("tiny", "medium", "both"), default="both")
    options = parser.parse_args()
    for kind in ("tiny", "medium") if options.kind == "both" else (options.kind,):
        show(kind, compare(kind, options.rounds, options.peer))


if __name__ == "__main__":
    main()
