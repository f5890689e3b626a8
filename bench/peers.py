"""The scripts of planted.py under other profilers: is the line that each shows first a planted one?

python bench/peers.py                         # every script with a planted line, under py-spy and scalene
python bench/peers.py slow_line --peers py-spy

Each gets the line of the scenario's own files with the most time: of a stack, the innermost frame that lies in one.
That is kinder than what they show, which is mostly a line of a library. Both are installed from PyPI into an
environment of their own, which finds torch in that of stepscope.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

from planted import PLANTED, SCENARIOS, installed, planted_lines

PACKAGES = ("py-spy==0.4.3", "scalene==2.3.0")
PEERS = ("py-spy", "scalene")
LONGEST_S = 180.0
Line = tuple[str, int]
_FRAME = re.compile(r"\((?P<file>[^()]+):(?P<line>\d+)\)$")


def environment() -> Path:
    """The folder of an environment with the peers, made on the first use."""
    folder = Path(__file__).parent.parent / ".cache" / "bench" / "peers"
    if not (folder / "bin" / "scalene").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *PACKAGES], check=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "torch_from.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return folder


def own(file: str) -> bool:
    """Whether a file is one of the scenarios'."""
    return Path(file).parent == SCENARIOS.resolve()


def py_spy(binaries: Path, script: list[str], folder: Path) -> Counter[Line]:
    """Samples by line, of the job and its workers."""
    out = folder / "raw.txt"
    options = ("record", "--subprocesses", "--full-filenames", "--rate", "100", "--format", "raw", "-o", str(out))
    run([str(binaries / "py-spy"), *options, "--", str(binaries / "python"), *script], folder)
    found: Counter[Line] = Counter()
    for row in out.read_text().splitlines():
        stack, _, count = row.rpartition(" ")
        frames = [match for frame in reversed(stack.split(";")) if (match := _FRAME.search(frame))]
        first = next((frame for frame in frames if own(frame["file"])), None)
        if first:
            found[first["file"], int(first["line"])] += int(count)
    return found


def scalene(binaries: Path, script: list[str], folder: Path) -> Counter[Line]:
    """Per cent of the time by line."""
    out = folder / "scalene.json"
    run([str(binaries / "scalene"), "run", "--cpu-only", "-o", str(out), *script], folder)
    found: Counter[Line] = Counter()
    for file, told in json.loads(out.read_text())["files"].items():
        for line in told["lines"] if own(file) else ():
            share = line["n_cpu_percent_python"] + line["n_cpu_percent_c"] + line["n_sys_percent"]
            found[file, line["lineno"]] += round(1000 * share)
    return found


def run(command: list[str], folder: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=kept, timeout=LONGEST_S)


def first_line(peer: str, binaries: Path, name: str) -> Line | str:
    """The first line that a peer shows of a scenario; else why there is none."""
    script = [str((SCENARIOS / f"{name}.py").resolve())]
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = (py_spy if peer == "py-spy" else scalene)(binaries, script, Path(folder))
        except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
            return type(error).__name__
    return max(found, key=lambda line: (found[line], line)) if found else "no line"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[name for name in PLANTED if planted_lines(name)])
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    options = parser.parse_args()
    binaries = environment() / "bin"
    right: Counter[str] = Counter()
    names = [name for name in options.names if installed(name)]
    for name in names:
        wanted = {(str(Path(file).resolve()), line) for file, line in planted_lines(name)}
        for peer in options.peers:
            line = first_line(peer, binaries, name)
            right[peer] += line in wanted
            told = line if isinstance(line, str) else f"{Path(line[0]).name}:{line[1]}"
            print(f"{name:24} {peer:8} {'line' if line in wanted else 'NO LINE':8} {told}", flush=True)
    for peer in options.peers:
        print(f"{peer}: the very line first in {right[peer]} of {len(names)}")


if __name__ == "__main__":
    main()
