"""Short recorded jobs with a fault in the recorder: does each end, print and compute as the same job does bare?

A warm process with torch imported and the probe armed forks one job after the other. In each one thing goes wrong: a
function of the recorder raises where the recorder calls it; a call of the system that it makes fails; a clock that it
reads jumps; its files vanish. Exit code, both outputs, the data that the model saw and the files written are compared.

    python bench/chaos.py --jobs 10000 --processes 2
"""

import argparse
import atexit
import builtins
import contextlib
import errno
import functools
import hashlib
import importlib
import json
import mmap
import os
import pkgutil
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src" / "stepscope"
COLLECT = str(SOURCE / "collect") + os.sep
PATIENCE_S = 60  # a job takes some tenths of a second
TIMES = ("first", "third", "from the second on", "always")
VARIANTS = ("plain", "workers", "failing", "evaluating", "traced")
STEPS = 24
WHOLE = 10  # one job in so many ends as a script does
_OUR_FRAMES = re.compile(rf'  File "(?:{re.escape(COLLECT)}|<[^>]*stepscope).*\n(?:    .*\n)?')

CALLS: dict[str, tuple[object, tuple[str, ...]]] = {
    "os": (os, ("open", "write", "pwrite", "close", "fstat", "ftruncate", "makedirs", "mkdir", "listdir", "replace",
                "unlink", "statvfs", "posix_fallocate")),
    "mmap": (mmap, ("mmap",)),
    "json": (json, ("dumps", "loads")),
    "socket": (socket, ("gethostname",)),
    "builtins": (builtins, ("open",)),
    "sys": (sys, ("_current_frames",)),
}  # fmt: skip
CLOCKS = ("monotonic_ns", "time_ns", "thread_time_ns", "process_time_ns", "monotonic")
ERRORS: dict[str, Callable[[], BaseException]] = {
    "full disk": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "broken disk": lambda: OSError(errno.EIO, "Input/output error"),
    "closed file": lambda: OSError(errno.EBADF, "Bad file descriptor"),
    "no memory": MemoryError,
    "a mistake of ours": lambda: ValueError("chaos"),
    "a worse mistake": lambda: AttributeError("chaos"),
}
JUMPS = {"an hour back": -3_600_000_000_000, "a day on": 86_400_000_000_000, "one unit back": -1}
GUARDS = {
    f"stepscope.collect.clock.StepClock.{name}"
    for name in ("begin_fetch", "fail", "enter_backward", "enter_step", "learn_thread", "timed_early",
                 "in_training_thread", "fetched", "not_fetched", "started", "leave_backward", "leave_step")
}  # fmt: skip
GUARDS |= {
    f"stepscope.collect.loading.{name}"
    for name in ("fetching._begin", "fetching._end", "fetching._uncounted", "fetching.without_our_frames",
                 "fetching._others", "lane.Lane.passed", "receiving._asks", "receiving._has_waited", "receiving._sent",
                 "receiving.Receiver.give_up", "worker._Working._asks", "worker._Working._was_given", "worker._end",
                 "worker.Feeder._announced", "worker.Feeder._dumped", "worker.Feeder.expect", "process.Loading.fail",
                 "process.Loading.lane", "process.Loading.sample_lines", "receiving._timed_put")
}  # fmt: skip
GUARDS |= {f"stepscope.collect.lines.Sampler.{name}" for name in ("_run", "_give_interval_back")}
"""What catches the errors of all that it calls, and is a few comparisons besides: nothing can catch its own."""

HOOKS = "stepscope.collect.hooks."
"""Its functions make the job's own call: what they raise is the job's."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong in a job: `error` is a name of ERRORS or JUMPS, `times` of TIMES."""

    place: str
    error: str
    times: str


class Gates:
    """Lets every call of the recorder through, until one is to fail."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.calls = 0
        self.places: list[str] = []
        self.clocks: list[str] = []

    def due(self) -> bool:
        """Is it this call that fails?"""
        self.calls += 1
        assert self.fault is not None
        number = {"first": self.calls == 1, "third": self.calls == 3, "from the second on": self.calls > 1}
        return number.get(self.fault.times, True)

    def failing(self, place: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, which fails where it is called by the recorder and that is the fault."""
        self.places.append(place)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.fault is not None and self.fault.place == place and _called_by_us() and self.due():
                raise ERRORS[self.fault.error]()
            return function(*args, **kwargs)

        return _ours(call, function)

    def jumping(self, place: str, function: Callable[[], Any]) -> Callable[..., Any]:
        """`function`, a clock, that jumps for the recorder if that is the fault."""
        self.clocks.append(place)
        unit = 1 if place.endswith("_ns") else 1e-9

        def call() -> Any:
            now = function()
            if self.fault is not None and self.fault.place == place and _called_by_us() and self.due():
                return now + JUMPS[self.fault.error] * unit
            return now

        return _ours(call, function)


def _called_by_us() -> bool:
    caller = sys._getframe(1).f_back  # none where a thread begins
    return caller is not None and caller.f_code.co_filename.startswith(COLLECT)


def _ours(call: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The gate belongs to the recorder: its frames are none of the job's."""
    call.__code__ = call.__code__.replace(co_filename=COLLECT + "gate.py")  # type: ignore[attr-defined]
    return functools.wraps(function)(call)


def modules() -> Iterator[types.ModuleType]:
    """Every module of the recorder that runs in a job."""
    import stepscope.collect as package

    for found in pkgutil.walk_packages(package.__path__, "stepscope.collect."):
        if not found.name.endswith(("native_hooks", "launch")) and ".inject" not in found.name:
            yield importlib.import_module(found.name)


def install(gates: Gates, *, clocks: bool) -> None:
    """Put a gate before each function and method of the recorder, and before the calls of the system."""
    for name, (owner, functions) in CALLS.items():
        for function in functions:
            if hasattr(owner, function):
                setattr(owner, function, gates.failing(f"{name}.{function}", getattr(owner, function)))
    for clock in CLOCKS if clocks else ():
        setattr(time, clock, gates.jumping(f"time.{clock}", getattr(time, clock)))
    found = list(modules())
    replaced: dict[int, Callable[..., Any]] = {}
    for module in found:
        for name, value in list(vars(module).items()):
            place = f"{module.__name__}.{name}"
            if isinstance(value, type) and value.__module__ == module.__name__:
                _gate_methods(gates, value, place)
            elif isinstance(value, types.FunctionType) and _is_own(value, module, place):
                replaced[id(value)] = gates.failing(place, value)
    for module in found:
        for name, value in list(vars(module).items()):
            if id(value) in replaced:
                setattr(module, name, replaced[id(value)])


def _is_own(value: object, module: types.ModuleType, place: str) -> bool:
    return getattr(value, "__module__", "") == module.__name__ and not place.startswith(HOOKS) and place not in GUARDS


def _gate_methods(gates: Gates, owner: type, place: str) -> None:
    for name, value in list(vars(owner).items()):
        if isinstance(value, types.FunctionType) and f"{place}.{name}" not in GUARDS:
            setattr(owner, name, gates.failing(f"{place}.{name}", value))


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
