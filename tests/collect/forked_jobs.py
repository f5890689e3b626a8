"""Jobs that use torch, each in a process of its own that begins with torch imported, which takes long."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Jobs", "forked_jobs"]

# An optimizer imports torch._dynamo. The process forks one for each line that it reads, which runs a script.
FORKING = """
import json, os, signal, sys
import torch, torch._dynamo, torch.profiler, torch.utils.data
for line in sys.stdin:
    script, out, *streams = json.loads(line)
    if not os.fork():
        break
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
else:
    sys.exit()
signal.alarm(300)
for number, path in enumerate((os.devnull, *streams)):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
os.environ["OUT"] = out
exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})
"""


@dataclass(frozen=True)
class Jobs:
    """The process that forks them."""

    process: subprocess.Popen[str]

    def run(self, script: str, folder: Path) -> tuple[int, str, str]:
        """Exit code and output of a script; its environment variable OUT is the folder `rank` in `folder`."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        streams = (folder / "stdout", folder / "stderr")
        stdin.write(json.dumps([script, *map(str, (folder / "rank", *streams))]) + "\n")
        stdin.flush()
        code = int(stdout.readline())
        told, errors = (stream.read_text() for stream in streams)
        return code, told, errors


@contextmanager
def forked_jobs(source: Path) -> Iterator[Jobs]:
    """Jobs whose Python path is `source`."""
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    words = [sys.executable, "-c", FORKING]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield Jobs(process)
