"""A process that has imported stepscope and forks one for each command: a start costs milliseconds, not half a second.

What a command sees is a process of its own: its folder, environment, input, outputs, exit code. What is not as in a new
one is how Python started, so a command whose environment says something about that gets a new process.
"""

import array
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
from functools import cache
from typing import Any, TextIO

__all__ = ["LIGHT_TORCH", "Hung", "run_warm", "same_start"]

_OF_THE_START = ("PYTHON", "LC_", "LANG", "POLARS", "RAYON", "OMP_", "MALLOC", "LD_", "COVERAGE", "ISAL")


LIGHT_TORCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "light_torch")
"""Folder of what lets jobs import less of torch. It means nothing to a command, which imports no torch."""


class Hung(Exception):
    """A command was killed since it took too long."""


def same_start(environment: dict[str, str]) -> bool:
    """Whether a Python that was started with our environment is as one started with this."""
    ours = _server().environment
    names = {name for name in {*environment, *ours} if name.startswith(_OF_THE_START)}
    return all(_of_start(environment, name) == _of_start(ours, name) for name in names)


def _of_start(environment: dict[str, str], name: str) -> str:
    return environment.get(name, "").removeprefix(LIGHT_TORCH).removeprefix(os.pathsep)


def run_warm(words: list[str], cwd: str, environment: dict[str, str], files: list[int], timeout: float) -> int:
    """Run a command with these standard files; its exit code, negative for a signal, as subprocess gives it."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(timeout)
        asked.connect(_server().address)
        request = json.dumps({"words": words, "cwd": cwd, "environment": environment}).encode(
            "utf-8", "surrogateescape"
        )
        head = len(request).to_bytes(8, "big")
        asked.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
        asked.sendall(request)
        answer = b""
        try:
            while chunk := asked.recv(100):
                answer += chunk
        except TimeoutError:
            os.kill(int(answer.split()[0]), signal.SIGKILL)
            raise Hung from None
    return int(answer.split()[1])


class _Server:
    """The warm process of this one; it ends when this one does."""

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self.address = f"\0stepscope-tests-{os.getpid()}-{os.urandom(4).hex()}"
        words = [sys.executable, "-P", __file__, self.address[1:], str(os.getpid())]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"


@cache
def _of(pid: int) -> _Server:
    return _Server()


def _server() -> _Server:
    return _of(os.getpid())


# -- the warm process ------------------------------------------------------------------------------------------------


def _serve(name: str) -> None:
    """Fork for each that asks, until our input ends."""
    _import_all()
    gc.freeze()  # no fork looks at it again, nor copies it only to count
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door, selectors.DefaultSelector() as waiting:
        door.bind("\0" + name)
        door.listen(20)
        os.write(1, b"ready\n")
        waiting.register(door, selectors.EVENT_READ)
        waiting.register(0, selectors.EVENT_READ)
        while all(key.fd != 0 for key, _ in waiting.select()):
            asked, _ = door.accept()
            if not os.fork():
                waiting.close()
                door.close()
                _attend(asked)
            asked.close()


def _import_all() -> None:
    """Import the command line and the modules of every plugin; none of it is run."""
    for package in ("cli", "analyses", "rules", "report", "importers", "render", "storage", "export"):
        found = importlib.import_module(f"stepscope.{package}")
        for module in pkgutil.walk_packages(found.__path__, f"stepscope.{package}."):
            if not module.name.rpartition(".")[2].startswith("_"):
                importlib.import_module(module.name)


def _attend(asked: socket.socket) -> None:
    """In a fork: run the command in another, and answer with its number and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, files, _, _ = socket.recv_fds(asked, 8, 3)
    request = b""
    while len(request) < int.from_bytes(head, "big"):
        request += asked.recv(1 << 20)
    pid = os.fork()
    if not pid:
        asked.close()
        _become(files, **json.loads(request))
    asked.sendall(b"%d " % pid)
    for file in files:
        os.close(file)
    _, status = os.waitpid(pid, 0)
    asked.sendall(b"%d" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(files: list[int], words: list[str], cwd: str, environment: dict[str, str]) -> None:
    """Be `python -m stepscope WORDS`."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = map(_anew, (sys.stdin, sys.stdout, sys.stderr))
    main = importlib.util.find_spec("stepscope.__main__")
    assert main is not None and main.origin is not None
    sys.argv, sys.path[:0] = [main.origin, *words], [cwd]
    sys.modules["__main__"].__spec__ = main  # what a spawned process begins with
    sys.modules["__main__"].__file__ = main.origin
    from stepscope.cli.main import main as run

    run()


def _anew(stream: TextIO) -> Any:
    """A standard stream as Python makes it at its start, of what the descriptor is now."""
    lines = 1 if stream.fileno() == 2 else -1
    return open(stream.fileno(), stream.mode, lines, encoding=stream.encoding, errors=stream.errors, closefd=False)


if __name__ == "__main__":
    _serve(sys.argv[1])
