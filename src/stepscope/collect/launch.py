"""Runs the user's exact command with the probe injected, as if stepscope were not there."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import sys
import time
from dataclasses import asdict, dataclass, field

from ..run_format.files import END, RUN, RUN_DIR
from ..run_format.options import VARIABLE, RecordingOptions
from .notes import collected_notes
from .run_folder import make_folder, write_json
from .secrets import redacted, without_scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

__all__ = ["Departure", "Exit", "begin_run", "finish_run", "job_environment", "launch", "leave", "resolve"]

INJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inject")
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what a shell gives
TICK_NS = 100_000_000
_LONGEST_FIRST_LINE = 256  # as in Linux
LOW_SPACE = 1 << 16  # bytes free at the end below which we say that the disk was full

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT)
_FROM_KERNEL = 0x80  # si_code of a signal that the terminal sent to all of its foreground group, the child included


@dataclass(frozen=True)
class Exit:
    """How the command ended: `code` or `signal`, `wall_ns` of the child.

    `not_started` says why there was no child. `recorded` is false when nothing of the run was written;
    `not_recorded` says what is missing and why, as dictionaries with "what" and "why".
    """

    code: int | None
    signal: int | None
    wall_ns: int
    not_started: str | None = None
    recorded: bool = True
    not_recorded: list[dict[str, str]] = field(default_factory=list)


def resolve(command: Sequence[str], *, exact: bool = False) -> list[str]:
    """`train.py ARGS` means the Python found on PATH and `train.py ARGS`; any other command is left as it is.

    `exact`: a file that is given with its folder, `./train.py`, is run by the interpreter that its first line names, if
    it names one, as a shell does. Whether it is executable makes no difference: a copy of it may have lost that.
    """
    program = command[0] if command else ""
    if not program.endswith(".py") or (not os.path.exists(program) and shutil.which(program, os.F_OK)):
        return list(command)
    named = _interpreter(program) if exact and os.sep in program else []
    return [*(named or [shutil.which("python") or shutil.which("python3") or sys.executable]), *command]


def _interpreter(script: str) -> list[str]:
    """What the first line of a file names behind #!, and its only argument; none where there is no such program."""
    try:
        with open(script, "rb") as file:
            line = file.readline(_LONGEST_FIRST_LINE)
    except OSError:
        return []
    words = os.fsdecode(line[2:]).split(None, 1) if line.startswith(b"#!") else []
    return [word.strip() for word in words] if words and os.path.exists(words[0]) else []


def launch(
    command: Sequence[str],
    run_dir: str,
    options: RecordingOptions,
    on_tick: Callable[[int], None] | None = None,
    cores: Mapping[str, Any] | None = None,
    departure: Departure | None = None,
) -> Exit:
    """Run `command` and record it in `run_dir`, which is made here; the command runs even if it cannot be.

    `options` go to the probe. `on_tick(pid)` is called at once and then ten times a second in
    this thread. `cores` is written into run.json. `departure` is told when the command has ended. Call it from the main
    thread.
    """
    run_dir = os.path.abspath(run_dir)
    missing: list[dict[str, str]] = []
    recorded = begin_run(command, run_dir, options, cores, missing)
    environment = job_environment(run_dir, options, missing) if recorded else dict(os.environ)
    begin = time.monotonic_ns()
    with _Signals() as signals:
        try:
            pid = os.posix_spawnp(
                command[0], list(command), environment,
                setsigmask=signals.mask_before, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )  # fmt: skip
        except OSError as error:
            return _not_started(command[0], error, recorded, run_dir, missing)
        code, number = _attend(pid, signals, on_tick, missing)
        if departure is not None:
            departure.job_has_ended = True
    wall_ns = time.monotonic_ns() - begin
    if recorded:
        finish_run(run_dir, code, number, wall_ns, missing)
    return Exit(code, number, wall_ns, recorded=recorded, not_recorded=missing)


def leave(end: Exit) -> NoReturn:
    """End this process as the command ended: the same exit code, or the same signal (without a core dump of ours).

    From here on no other signal changes that.
    """
    for number in _FORWARDED:
        signal.signal(number, signal.SIG_IGN)
    if end.signal is None:
        sys.exit(end.code)
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if end.signal not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(end.signal, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [end.signal])
    os.kill(os.getpid(), end.signal)
    sys.exit(128 + end.signal)


class Departure:
    """While in use: once the job has ended, a signal to end no more decides how this process ends.

    A person or a scheduler who sends one wants an end of the verdict, not another exit code. `interruptible` turns true
    where that can be cut short: there, and where it turns true too late, it is a KeyboardInterrupt. A second one, too.
    """

    def __init__(self) -> None:
        self.job_has_ended = self.interruptible = self._asked = False

    def __enter__(self) -> Departure:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._ask)
        return self

    def __exit__(self, *failure: object) -> None:
        return None  # `leave` comes next

    def begin(self) -> None:
        """What comes now may be cut short. Raises KeyboardInterrupt where that was asked for before."""
        self.interruptible = True
        if self._asked:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: object) -> None:
        self._asked = True
        if not self.job_has_ended:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self.interruptible:
            raise KeyboardInterrupt


# -- the run folder ------------------------------------------------------------------------------------------------


def begin_run(
    command: Sequence[str],
    run_dir: str,
    options: RecordingOptions,
    cores: Mapping[str, Any] | None,
    missing: list[dict[str, str]],
    cwd: str | None = None,
) -> bool:
    """Make the run folder and its run.json; false, and the reason in `missing`, if that is not possible.

    `cwd` is the folder in which the command is going to run, if not this process's own.
    """
    row = {
        "format": "stepscope-run",
        "version": 1,
        "stepscope": _version(),
        "command": redacted(command if options.source else without_scripts(command)),
        "cwd": cwd or os.getcwd(),
        "host": socket.gethostname(),
        "started_epoch_ns": time.time_ns(),
        "launcher": {"pid": os.getpid(), "start_ticks": _start_ticks()},
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "cores": cores,
        "shared_memory": _shared_memory(),
        "options": asdict(options),
    }
    try:
        make_folder(run_dir)
        write_json(os.path.join(run_dir, RUN), row)
    except OSError as error:
        missing.append({"what": "everything", "why": f"cannot write to {run_dir}: {error.strerror or error}"})
        return False
    return True


def finish_run(run_dir: str, code: int | None, number: int | None, wall_ns: int, missing: list[dict[str, str]]) -> None:
    """Write end.json: how the job ended, and what is missing; what its processes noted is added to `missing`."""
    missing.extend(collected_notes(run_dir))
    try:
        free = os.statvfs(run_dir)
        if free.f_bavail * free.f_frsize < LOW_SPACE:
            missing.append({"what": "the rest of the run", "why": f"the disk of {run_dir} is full"})
    except OSError as error:
        missing.append({"what": "the rest of the run", "why": f"{run_dir} is gone: {error.strerror or error}"})
    row = {
        "exit_code": code,
        "signal": number,
        "ended_epoch_ns": time.time_ns(),
        "wall_ns": wall_ns,
        "not_recorded": missing,
    }
    try:
        write_json(os.path.join(run_dir, END), row)
    except OSError as error:
        missing.append({"what": END, "why": error.strerror or str(error)})


def _start_ticks() -> int | None:
    """When this process started, in ticks since boot: tells it from a later one with its number."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _shared_memory() -> dict[str, int] | None:
    """Bytes of /dev/shm, through which loader workers hand over tensors; None where there is none."""
    try:
        space = os.statvfs("/dev/shm")
    except (OSError, AttributeError):
        return None
    return {"size": space.f_blocks * space.f_frsize, "free": space.f_bavail * space.f_frsize}


def _version() -> str:
    from stepscope import __version__

    return __version__


# -- the child -----------------------------------------------------------------------------------------------------


def job_environment(run_dir: str, options: RecordingOptions, missing: list[dict[str, str]]) -> dict[str, str]:
    """The environment in which the Pythons of a job record themselves."""
    environment = dict(os.environ)
    if os.pathsep in INJECT:
        why = f"stepscope is installed in a folder with '{os.pathsep}' in its name: {INJECT}"
        missing.append({"what": "everything but the system", "why": why})
        return environment
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = INJECT + (os.pathsep + before if before else "")
    environment[RUN_DIR] = run_dir
    environment[VARIABLE] = options.to_json()
    return environment


def _not_started(program: str, error: OSError, recorded: bool, run_dir: str, missing: list[dict[str, str]]) -> Exit:
    found = shutil.which(program, os.F_OK)
    if isinstance(error, FileNotFoundError) and found is None:
        code, why = NOT_FOUND, f"{program}: command not found"
    elif isinstance(error, FileNotFoundError):
        code, why = NOT_EXECUTABLE, f"{found}: the interpreter in its first line does not exist"
    else:
        code, why = NOT_EXECUTABLE, f"{found or program}: cannot be run: {error.strerror}"
    if recorded:
        finish_run(run_dir, code, None, 0, missing)
    return Exit(code, None, 0, not_started=why, recorded=recorded, not_recorded=missing)


def _attend(
    pid: int, signals: _Signals, on_tick: Callable[[int], None] | None, missing: list[dict[str, str]]
) -> tuple[int | None, int | None]:
    """Forward signals and tick until the child ends; its exit code or the signal that ended it."""
    next_tick = time.monotonic_ns()
    while True:
        now = time.monotonic_ns()
        if on_tick is not None and now >= next_tick:
            next_tick = now + TICK_NS
            try:
                on_tick(pid)
            except Exception as error:
                on_tick = None
                missing.append({"what": "the system", "why": f"{type(error).__name__}: {error}"})
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return (code, None) if code >= 0 else (None, -code)
        until_tick = max(0, next_tick - time.monotonic_ns()) if on_tick is not None else TICK_NS
        signals.wait(until_tick, pid)


class _Signals:
    """While in use: signals to this process are taken one by one and passed on to the child."""

    def __enter__(self) -> _Signals:
        self._pid = 0
        self._taken = {number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN}
        self.mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, {*self._taken, signal.SIGCHLD})
        self._before = {number: signal.signal(number, self._by_another_thread) for number in self._taken}
        return self

    def __exit__(self, *failure: object) -> None:
        while signal.sigtimedwait(self._taken, 0) is not None:
            pass  # a Ctrl-C that ended the child was ours as well: it must not end the report
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask_before)

    def wait(self, timeout_ns: int, pid: int) -> None:
        """Sleep until the child's state changes, a signal was forwarded or the time is over."""
        self._pid = pid
        received = signal.sigtimedwait({*self._taken, signal.SIGCHLD}, timeout_ns / 1e9)
        if received is None or received.si_signo == signal.SIGCHLD:
            return
        if received.si_code != _FROM_KERNEL:
            self._forward(received.si_signo)

    def _by_another_thread(self, number: int, frame: object) -> None:
        """A thread of a library in this process, which blocks nothing, was handed the signal; its origin is unknown."""
        if number not in (signal.SIGINT, signal.SIGQUIT):
            self._forward(number)

    def _forward(self, number: int) -> None:
        try:
            if self._pid:
                os.kill(self._pid, number)
        except ProcessLookupError:
            return
