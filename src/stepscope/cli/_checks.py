"""What can be recorded on this machine, and why not the rest. Each check looks at one thing and changes nothing."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stepscope.core.plural import plural
from stepscope.core.report import Text, Value
from stepscope.observe.cores import effective_cores
from stepscope.storage.cache import VARIABLE, user_cache
from stepscope.storage.kept import limit

__all__ = ["CHECKS", "Check"]

_SHM_WANTED = 2**30  # bytes: a few dozen batches of images; Docker gives 64 MiB, and workers then die with a bus error
_DISK_WANTED = 2**30  # bytes: a few traced windows of 100 MB each, with room for the job itself
_PYTHON_SECONDS = 30
_OLDEST_PYTHON = (3, 9)
_PTRACE_CAPABILITY = 19  # CAP_SYS_PTRACE, capability.h
_ASK_PYTHON = """
import importlib.metadata, json, sys
try:
    torch = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    torch = None
print(json.dumps([sys.version_info[:3], torch]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at: can it be recorded, what was found, and what to do about it."""

    name: str
    state: Literal["yes", "partly", "no"]
    found: Text
    how: str = ""


def _python() -> Check:
    name = "python of the job"
    python = shutil.which("python") or shutil.which("python3")
    if python is None:
        how = "Activate the environment of the job, or run it with stepscope run -- /path/to/python train.py"
        return Check(name=name, state="no", found=Text("no python on PATH"), how=how)
    try:
        answer = subprocess.run(
            [python, "-c", _ASK_PYTHON], capture_output=True, check=True, timeout=_PYTHON_SECONDS, text=True
        )
        version, torch = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        found = Text(f"{_safe(python)} does not run, or is older than 3.8")
        return Check(name=name, state="no", found=found, how="Python 3.9 or newer is needed in the job's environment")
    found = Text(
        f"Python {'.'.join(map(str, version))} at {_safe(python)}, {'torch ' + torch if torch else 'no torch'}"
    )
    if tuple(version[:2]) < _OLDEST_PYTHON:
        return Check(name=name, state="no", found=found, how="Python 3.9 or newer is needed in the job's environment")
    if torch is None:
        return Check(name=name, state="partly", found=found, how="Activate the environment that holds torch")
    return Check(name=name, state="yes", found=found)


def _gpu() -> Check:
    devices = sorted(Path("/dev").glob("nvidia[0-9]*"))
    if devices:
        return Check(name="GPU", state="yes", found=Text("{} NVIDIA", (Value(len(devices), "count"),)))
    if Path("/dev/kfd").exists():
        return Check(name="GPU", state="partly", found=Text("AMD"), how="traces work; the sampled load does not")
    return Check(name="GPU", state="no", found=Text("none seen: no /dev/nvidia*, no /dev/kfd"))


def _nvml() -> Check:
    name = "NVML (GPU load, memory, power)"
    try:
        import pynvml
    except ImportError:
        how = "pip install 'stepscope[gpu]'"
        return Check(name=name, state="no", found=Text("nvidia-ml-py is not installed"), how=how)
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return Check(name=name, state="no", found=Text(_safe(str(error))), how="Check that nvidia-smi works")
    return Check(name=name, state="yes", found=Text(f"{{}} {plural(count, 'device')}", (Value(count, "count"),)))


_OUTSIDE = "pip install py-spy, to look at a job that was started without stepscope; `stepscope run` does not need it"


def _ptrace() -> Check:
    name = "look into a running job from outside (ptrace, py-spy)"
    scope = _number("/proc/sys/kernel/yama/ptrace_scope")
    allowed = scope in (None, 0) or _has_capability(_PTRACE_CAPABILITY)
    found = Text("no Yama restriction") if scope is None else Text("ptrace_scope {}", (Value(scope, None),))
    if not allowed:
        how = "sudo sysctl kernel.yama.ptrace_scope=0; in a container --cap-add SYS_PTRACE. stepscope run needs neither"
        return Check(name=name, state="no", found=found, how=how)
    if shutil.which("py-spy") is None:
        return Check(name=name, state="partly", found=Text(found.text + ", no py-spy", found.values), how=_OUTSIDE)
    return Check(name=name, state="yes", found=found)


def _shared_memory() -> Check:
    name = "/dev/shm (batches of loader workers)"
    try:
        space = os.statvfs("/dev/shm")
    except OSError as error:
        return Check(
            name=name, state="no", found=Text(_safe(error.strerror or "")), how="use num_workers=0, or mount it"
        )
    size, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
    found = Text("{}, {} free", (Value(size, "bytes"), Value(free, "bytes")))
    if free < _SHM_WANTED:
        return Check(name=name, state="partly", found=found, how="docker run --shm-size=8g, or --ipc=host")
    return Check(name=name, state="yes", found=found)


def _cores() -> Check:
    cores, online = effective_cores(), os.cpu_count() or 1
    text, values = f"{{}} of {{}} {plural(online, 'core')}", [Value(cores.effective, "count"), Value(online, "count")]
    if cores.cgroup_quota is not None:
        text, values = text + ", control group allows {}", [*values, Value(cores.cgroup_quota, "count")]
    if cores.affinity < online:
        text, values = text + ", affinity allows {}", [*values, Value(cores.affinity, "count")]
    full = cores.effective >= online
    how = "" if full else "Loader workers and threads share these; os.cpu_count() says more than there is"
    return Check(name="effective cores", state="yes" if full else "partly", found=Text(text, tuple(values)), how=how)


def _perf() -> Check:
    name = "perf events (hardware counters)"
    paranoid = _number("/proc/sys/kernel/perf_event_paranoid")
    if paranoid is None:
        return Check(name=name, state="no", found=Text("the kernel has none"))
    found = Text("perf_event_paranoid {}", (Value(paranoid, None),))
    if paranoid <= 2 or os.geteuid() == 0:  # 2: own processes, without the kernel
        return Check(name=name, state="yes", found=found)
    return Check(name=name, state="no", found=found, how="sudo sysctl kernel.perf_event_paranoid=2")


def _folder() -> Check:
    name = "folder for runs"
    folder = Path("stepscope-runs") if Path("stepscope-runs").is_dir() else Path()
    shown = _safe(str(folder.resolve()))
    if not os.access(folder, os.W_OK | os.X_OK):
        found = Text(f"{shown} cannot be written")
        return Check(name=name, state="no", found=found, how="stepscope run --out /a/folder/you/may/write -- COMMAND")
    free = shutil.disk_usage(folder).free
    found = Text(f"{shown}, {{}} free", (Value(free, "bytes"),))
    if free < _DISK_WANTED:
        return Check(name=name, state="partly", found=found, how="stepscope run --out /another/disk -- COMMAND")
    return Check(name=name, state="yes", found=found)


def _hooks() -> Check:
    from stepscope.collect.fields import kind

    return _compiled("compiled hooks of the step clock", kind() == "compiled", "a step costs several times as much")


def _compiled(name: str, built: bool, without: str) -> Check:
    if built:
        return Check(name=name, state="yes", found=Text("built"))
    how = "install g++ or clang, then: pip install --force-reinstall --no-deps --no-binary stepscope stepscope"
    return Check(name=name, state="partly", found=Text(f"not built: {without}"), how=how)


def _cache() -> Check:
    name = "cache of parsed traces"
    cache = user_cache()
    if cache is None:
        how = f"export {VARIABLE}=/a/folder/you/may/write; without it, traces are parsed each time"
        return Check(name=name, state="no", found=Text("no home folder"), how=how)
    shown = _safe(str(cache.folder))
    if not cache.is_writable():
        how = f"export {VARIABLE}=/a/folder/you/may/write; without it, traces are parsed each time"
        return Check(name=name, state="no", found=Text(f"{shown} cannot be written"), how=how)
    return Check(name=name, state="yes", found=Text(f"{shown}, at most {{}}", (Value(limit(cache), "bytes"),)))


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _has_capability(number: int) -> bool:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return False
    masks = [line.split()[1] for line in lines if line.startswith("CapEff:")]
    return bool(masks) and bool(int(masks[0], 16) >> number & 1)


def _safe(words: str) -> str:
    return words.replace("{", "{{").replace("}", "}}")


CHECKS: tuple[Callable[[], Check], ...] = (
    _python,
    _gpu,
    _nvml,
    _cores,
    _shared_memory,
    _folder,
    _hooks,
    _cache,
    _ptrace,
    _perf,
)
"""All checks, in the order in which they matter for a recording."""
