"""The warm process of chaos.py: with torch imported and the probe armed, it forks one short job after the other.

python bench/chaos_job.py TASK     TASK is JSON, as chaos.py writes it
"""

import atexit
import contextlib
import gc
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from chaos_faults import ERRORS, FILES, JUMPS, OURS, PACKAGE, TIMES, Fault, Gates, install

VARIANTS = ("plain", "workers", "failing", "evaluating", "traced")
STEPS = 24
WHOLE = 10  # one job in so many ends as a script does
UNFROZEN = 100  # and one in so many also collects, at its end, what was there before it was forked
REACHED = 0.9  # part of the faults in places that a job of the kind is known to reach: another fault may lead elsewhere
MANY = 255
MOST_ASLEEP_S = 30  # a job sleeps for some tenths of a second
MOST_S = 1800
LOOK_S = 1.0
_PATHS = "|".join(map(re.escape, OURS))
_OUR_FRAMES = re.compile(rf'  File "(?:{_PATHS}|<[^>]*stepscope).*\n(?:    .*\n)?')


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


def variant_of(number: int) -> str:
    """The kind of a job; a traced one takes as long as three others."""
    variant = VARIANTS[number % len(VARIANTS)]
    return "workers" if variant == "traced" and number % 3 else variant


# -- the warm process ------------------------------------------------------------------------------------------------


def warm(task: dict[str, Any]) -> None:
    """Fork the jobs of `task` one by one, and write what each left behind, a line each."""
    gates = Gates()
    if task["recorded"]:
        install(gates, clocks=task["hooks"] == "python")  # the compiled ones do not read the clock through Python
    _import_torch()
    folder, run = Path(task["folder"]) / "job", Path(task["run"])
    reached = {}
    if task["recorded"] and task["faults"]:
        reached = {variant: _reached(folder, variant, gates, run) for variant in VARIANTS}
    with open(task["results"], "w", encoding="utf-8") as results:
        for number in range(task["first"], task["first"] + task["jobs"]):
            variant, whole = variant_of(number), number % WHOLE == 0
            if not task["recorded"]:
                variant, whole = VARIANTS[number % len(VARIANTS)], number >= len(VARIANTS)
            chance = random.Random(f"{task['seed']}:{number}")
            fault = drawn(chance, gates, reached[variant]) if reached else None
            unfrozen = number % UNFROZEN == 0
            outcome = forked(folder, variant, gates, fault, run, whole=whole, unfrozen=unfrozen)
            found = None if fault is None else [fault.place, fault.error, fault.times]
            results.write(json.dumps([number, variant, whole, found, outcome]) + "\n")
            results.flush()  # a forked job would write it once more


def _import_torch() -> None:
    warnings.simplefilter("ignore")
    import torch
    import torch._dynamo  # the first step of an optimizer imports it, for seconds
    import torch.profiler
    import torch.utils.data

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # a job that ends would collect all of torch's modules, for a second


def _reached(folder: Path, variant: str, gates: Gates, run: Path) -> dict[str, int]:
    """The places that a job of a kind comes to where nothing goes wrong, and how often."""
    gates.begin_survey()
    forked(folder, variant, gates, None, run, whole=True, unfrozen=False)
    return gates.end_survey()


def drawn(chance: random.Random, gates: Gates, reached: dict[str, int]) -> Fault:
    """A fault for a job that comes to the places `reached` so often."""
    kind = chance.random()
    if kind < 0.1:
        return Fault("files", chance.choice(FILES), chance.choice(list(TIMES)))
    known = reached if chance.random() < REACHED else dict.fromkeys([*gates.places, *gates.clocks], MANY)
    clocks = [place for place in gates.clocks if place in known]
    if kind < 0.25 and clocks:
        place, errors = chance.choice(clocks), sorted(JUMPS)
    else:
        ours = kind > 0.5
        place = chance.choice([place for place in gates.places if place in known and place.startswith(PACKAGE) == ours])
        errors = sorted(ERRORS)
    times = [name for name, least in TIMES.items() if known[place] >= least]
    return Fault(place, chance.choice(errors), chance.choice(times))


def forked(
    folder: Path, variant: str, gates: Gates, fault: Fault | None, run: Path, *, whole: bool, unfrozen: bool
) -> dict[str, Any]:
    """Exit status ("hangs" where it had to be killed), outputs and files of a job; its steps, and if the fault came.

    Unless it is `whole`, the interpreter is not taken down, which takes longer than the job.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if run.is_file():
        run.unlink()
    shutil.rmtree(run, ignore_errors=True)
    folder.mkdir()
    run.mkdir(exist_ok=True)
    gates.forget()
    pid = os.fork()
    if not pid:
        _become_a_job(folder, variant)
        if fault is not None and fault.place == "files":
            _disturb(fault, run, gates)
        gates.fault = fault
        if unfrozen:
            gc.unfreeze()
        if whole:
            sys.exit(job(variant))
        _end_at_once(variant)
    status = _ended(pid)
    out, err = (_OUR_FRAMES.sub("", (folder.parent / name).read_text(errors="replace")) for name in ("out", "err"))
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    return {"exit": status, "stdout": out, "stderr": err, "files": files, "steps": _steps(run), "came": gates.came}


def _become_a_job(folder: Path, variant: str) -> None:
    os.setpgid(0, 0)
    os.chdir(folder)
    for number, name in ((1, "../out"), (2, "../err")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, number)
        os.close(file)
    os.environ["STEPSCOPE_OPTIONS"] = options(variant)


def _end_at_once(variant: str) -> None:
    try:
        code = job(variant)
    except BaseException:  # noqa: BLE001, told as Python tells it; this child must not return into the loop that forks
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    os._exit(code)


def _steps(run: Path) -> int:
    from stepscope.run_format.records import HEADER, STEP

    found = 0
    for path in run.glob("rank-*/steps.bin"):
        records = path.read_bytes()[HEADER.size :]
        whole = len(records) // STEP.struct.size * STEP.struct.size
        found += sum(record[2] != 0 for record in STEP.struct.iter_unpack(records[:whole]))
    return found


def _ended(pid: int) -> int | str:
    """How a job ended: "hangs" if it slept for long. To wait for a core is not to sleep: the machine may be loaded."""
    asleep, passed, ran, looked = 0.0, 0.0, 0.0, time.monotonic()
    while asleep < MOST_ASLEEP_S and passed < MOST_S:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
        now = time.monotonic()
        if now - looked > LOOK_S:
            since = min(now - looked, 2 * LOOK_S)  # more: this process was stopped, and so may the job have been
            before, ran = ran, _ran(pid)
            asleep += max(0.0, since - max(0.0, ran - before))
            passed += since
            looked = now
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def _ran(group: int) -> float:
    """Seconds that the threads of a process group have been on a core or have waited for one."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            if int((process / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                for thread in (process / "task").iterdir():
                    running, waiting, _ = (thread / "schedstat").read_text().split()
                    total += int(running) + int(waiting)
    return total / 1e9


def _disturb(fault: Fault, run: Path, gates: Gates) -> None:
    """Do something to the files of the run, at once or while the job trains."""
    import _thread

    def disturb() -> None:
        time.sleep({"first": 0.0, "third": 0.05, "from the second on": 0.1}.get(fault.times, 0.2))
        gates.comes()
        if fault.error == "vanish":
            shutil.rmtree(run, ignore_errors=True)
        elif fault.error == "are read-only":
            for path in (run, *run.rglob("*")):
                with contextlib.suppress(FileNotFoundError):  # the recorder has just renamed it
                    path.chmod(0o555 if path.is_dir() else 0o444)
        else:
            shutil.rmtree(run, ignore_errors=True)
            with contextlib.suppress(OSError):  # the recorder has just made it anew
                run.write_text("no folder")

    if fault.times == "always":
        disturb()
    else:
        _thread.start_new_thread(disturb, ())


if __name__ == "__main__":
    warm(json.loads(sys.argv[1]))
