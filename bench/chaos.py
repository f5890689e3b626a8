"""Short recorded jobs with a fault in the recorder: does each end, print and compute as the same job does bare?

A warm process with torch imported and the probe armed forks one job after the other. In each one thing goes wrong: a
function of the recorder raises where the recorder calls it; a call of the system that it makes fails; a clock that it
reads jumps; its files vanish. Exit code, both outputs, the data that the model saw and the files written are compared.

    python bench/chaos.py --jobs 10000 --processes 2
"""

import argparse
import atexit
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos_faults import COLLECT, ERRORS, JUMPS, TIMES, Fault, Gates, install

PATIENCE_S = 60  # a job takes some tenths of a second
VARIANTS = ("plain", "workers", "failing", "evaluating", "traced")
STEPS = 24
WHOLE = 10  # one job in so many ends as a script does
_OUR_FRAMES = re.compile(rf'  File "(?:{re.escape(COLLECT)}|<[^>]*stepscope).*\n(?:    .*\n)?')


# -- the job ---------------------------------------------------------------------------------------------------------


def job(variant: str) -> int:
    """Train a little, tell what was seen; the exit code."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Scale:
        def __call__(self, sample: Any) -> Any:
            return sample * 2 + random.random() * 0

    class Numbers(Dataset[Any]):
        def __init__(self) -> None:
            self.transform = Scale()

        def __len__(self) -> int:
            return 8 * STEPS // 2

        def __getitem__(self, index: int) -> Any:
            if variant == "failing" and index == 77:
                raise RuntimeError("the job's own mistake")
            return self.transform(torch.full((16,), float(index)) + torch.rand(16)), index

    torch.manual_seed(7)
    random.seed(7)
    workers = 2 if variant == "workers" else 0
    loader = DataLoader(Numbers(), batch_size=8, shuffle=True, num_workers=workers)
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seen = hashlib.sha256()
    for epoch in range(2):
        for inputs, indices in loader:
            seen.update(inputs.numpy().tobytes() + bytes(indices.tolist()))
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if variant == "evaluating":
            with torch.no_grad():
                for inputs, _ in DataLoader(Numbers(), batch_size=16):
                    seen.update(model(inputs).numpy().tobytes())
        print(epoch, loss.item(), torch.rand(1).item(), random.random(), flush=True)
    Path("weights").write_bytes(b"".join(part.detach().numpy().tobytes() for part in model.parameters()))
    print(seen.hexdigest(), file=sys.stderr)
    return 3 if variant == "evaluating" else 0


def options(variant: str) -> str:
    """What is recorded of it."""
    given: dict[str, Any] = {"lines_hz": 200, "loader": "all", "loader_lines_hz": 100}
    if variant == "traced":
        given |= {"trace": {"skip_first": 4, "wait": 0, "warmup": 1, "active": 2, "repeat": 1}, "trace_seconds": 5}
    return json.dumps(given)


# -- the warm process ------------------------------------------------------------------------------------------------


def warm(task: dict[str, Any]) -> None:
    """Fork the jobs of `task` one by one, and write what each left behind, a line each."""
    gates = Gates()
    if task["recorded"]:
        install(gates, clocks=task["clocks"])
    warnings.simplefilter("ignore")
    import torch
    import torch._dynamo  # the first step of an optimizer imports it, for seconds
    import torch.profiler
    import torch.utils.data

    torch.set_num_threads(1)
    rng = random.Random(task.get("seed"))
    with open(task["results"], "w", encoding="utf-8") as results:
        for number in range(task["jobs"]):
            variant = VARIANTS[number % len(VARIANTS)]
            if variant == "traced" and task["recorded"] and number % 3:
                variant = "workers"
            fault = _fault(rng, gates) if task["recorded"] and task["faults"] else None
            folder = Path(task["folder"]) / "job"
            outcome = forked(folder, variant, gates, fault, Path(task["run"]), whole=number % WHOLE == 0)
            found = None if fault is None else [fault.place, fault.error, fault.times]
            results.write(json.dumps([variant, found, outcome]) + "\n")
            results.flush()  # a forked job would write it once more


def _fault(rng: random.Random, gates: Gates) -> Fault:
    kind = rng.random()
    if kind < 0.1:
        return Fault("files", rng.choice(("vanish", "are read-only", "are replaced")), rng.choice(TIMES))
    if kind < 0.25 and gates.clocks:
        return Fault(rng.choice(gates.clocks), rng.choice(sorted(JUMPS)), rng.choice(TIMES))
    system = [place for place in gates.places if not place.startswith("stepscope")]
    ours = [place for place in gates.places if place.startswith("stepscope")]
    return Fault(rng.choice(system if kind < 0.5 else ours), rng.choice(sorted(ERRORS)), rng.choice(TIMES))


def forked(folder: Path, variant: str, gates: Gates, fault: Fault | None, run: Path, *, whole: bool) -> list[Any]:
    """Exit status, outputs and files of a job; "hangs" in place of the status where it had to be killed.

    Unless it is `whole`, the interpreter is not taken down, which takes longer than the job.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if run.is_file():
        run.unlink()
    shutil.rmtree(run, ignore_errors=True)
    folder.mkdir()
    run.mkdir(exist_ok=True)
    pid = os.fork()
    if not pid:
        os.chdir(folder)
        for number, name in ((1, "../out"), (2, "../err")):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(file, number)
            os.close(file)
        os.environ["STEPSCOPE_OPTIONS"] = options(variant)
        if fault is not None and fault.place == "files":
            _disturb(fault, run)
        gates.fault = fault
        code = job(variant)
        if whole:
            sys.exit(code)
        atexit._run_exitfuncs()
        os._exit(code)
    status = _ended(pid)
    texts = [_OUR_FRAMES.sub("", (folder.parent / name).read_text(errors="replace")) for name in ("out", "err")]
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    steps = sum((path.stat().st_size - 64) // 88 for path in run.glob("rank-*/steps.bin"))
    return [status, *texts, files, steps, gates.calls]


def _ended(pid: int) -> int | str:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def _disturb(fault: Fault, run: Path) -> None:
    """Do something to the files of the run, at once or while the job trains."""
    import _thread

    def disturb() -> None:
        time.sleep({"first": 0.0, "third": 0.05, "from the second on": 0.1}.get(fault.times, 0.2))
        if fault.error == "vanish":
            shutil.rmtree(run, ignore_errors=True)
        elif fault.error == "are read-only":
            for path in (run, *run.rglob("*")):
                path.chmod(0o555 if path.is_dir() else 0o444)
        else:
            shutil.rmtree(run, ignore_errors=True)
            with contextlib.suppress(OSError):  # the recorder has just made it anew
                run.write_text("no folder")

    if fault.times == "always":
        disturb()
    else:
        _thread.start_new_thread(disturb, ())


# -- the bench -------------------------------------------------------------------------------------------------------


def bench(jobs: int, processes: int, seed: int, *, faults: bool = True) -> tuple[int, list[str]]:
    """The number of jobs, and what differed in which of them."""
    with tempfile.TemporaryDirectory() as place:
        expected = {row[0]: row[2] for row in _warm(Path(place), 0, jobs=len(VARIANTS), recorded=False)()}
        waiting = [
            _warm(Path(place), number + 1, jobs=jobs // processes, recorded=True, seed=seed + number, faults=faults,
                  clocks=number % 2 == 1 or processes == 1)
            for number in range(processes)
        ]  # fmt: skip
        rows = [row for finish in waiting for row in finish()]
    different = []
    for variant, fault, outcome in rows:
        for what, was, now in zip(("exit code", "stdout", "stderr", "files"), expected[variant], outcome, strict=False):
            if was != now:
                different.append(f"{variant}, {fault}: {what} {now!r:.900} instead of {was!r:.300}")
    steps = sum(row[2][4] for row in rows)
    print(f"{len(rows)} jobs, {steps} steps recorded, {len(different)} differences", flush=True)
    return len(rows), different


def _warm(place: Path, number: int, **task: Any) -> Callable[[], list[Any]]:
    """Start a warm process; what it returns waits for its results."""
    folder = place / str(number)
    folder.mkdir()
    task |= {"folder": str(folder), "run": str(folder / "run"), "results": str(folder / "results")}
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("STEPSCOPE_RUN_DIR", None)
    if task["recorded"]:
        environment |= {
            "PYTHONPATH": COLLECT + "inject",
            "STEPSCOPE_RUN_DIR": task["run"],
            "STEPSCOPE_OPTIONS": options(""),
        }
        if task["clocks"]:
            environment["STEPSCOPE_HOOKS"] = "python"  # only these read the clock through Python
        (folder / "run").mkdir()
    process = subprocess.Popen([sys.executable, __file__, "--warm", json.dumps(task)], env=environment)

    def finish() -> list[Any]:
        if process.wait():
            raise SystemExit(f"the warm process {number} ended with {process.returncode}")
        with open(task["results"], encoding="utf-8") as results:
            return [json.loads(line) for line in results]

    return finish


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-faults", action="store_true", help="only that the jobs are recorded, and nothing differs")
    parser.add_argument("--warm", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.warm:
        warm(json.loads(given.warm))
        return 0
    _, different = bench(given.jobs, given.processes, given.seed, faults=not given.no_faults)
    print(*dict.fromkeys(different), sep="\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
