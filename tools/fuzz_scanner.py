"""Fuzz the scanner under AddressSanitizer and UndefinedBehaviorSanitizer; says how many inputs it tried.

Coverage-guided with clang's libFuzzer; where there is only another compiler, mutations of the seeds are blind. Seeds
are small events written here, and the lists of the corpus' small traces if there is a corpus (STEPSCOPE_CORPUS, else
../shared). An input that fails is kept in the folder of the build, which the last line names; a blind one is found
again by its seed. With --ledger FILE the inputs tried are added to those of earlier runs with the same scanner.

Usage: python tools/fuzz_scanner.py [--minutes N] [--jobs N] [--ledger FILE]
"""

import argparse
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from stepscope.importers.kineto.layout import LAYOUT

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "tests" / "native" / "fuzz" / "fuzz_scanner.cpp"
BUILD = ROOT / ".cache" / "fuzz"
CLANGS = ("clang++", *(f"clang++-{version}" for version in range(22, 11, -1)))
SANITIZERS = "address,undefined"
FAST = {**os.environ, "ASAN_OPTIONS": "malloc_context_size=1:quarantine_size_mb=8"}  # half of the time is malloc's
SLICE_MINUTES = 10
"""A run is told of, and entered into the ledger, in parts of so many minutes."""

LARGEST_SEED = 20_000  # bytes
SEEDS = (
    b'{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": "8", "ts": 1.5, "dur": 2.0005, "args": '
    b'{"External id": 3, "Input Dims": [[2, 3], []]}}, {"ph": "X", "cat": "Kernel", "name": "k", "ts": 9, "dur": 1}]',
    b'{"name":"[memory]","ph":"i","ts":"17.25","args":{"Bytes":-64,"Addr":1,"Device Id":-1}},null,[],"a",-1e5,true]',
    b'{"ph":"M","name":"thread_name","pid":1,"args":{"name":"main","labels":"\\u00e9\\ud83d\\ude00\\ud800"}}, {} ]',
    b'{"ph": "f", "cat": "ac2g", "id": 12, "ts": 1, "bp": "e"}, {"ph": "C", "ts": 2, "args": {"": 1.5}},\n{"ph": "Q"}',
)


def seeds(folder: Path) -> list[Path]:
    """Files with seeds; the first two bytes of an input say where its text is cut."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = Path(os.environ.get("STEPSCOPE_CORPUS", ROOT.parent / "shared")) / "traces"
    small = [file for file in corpus.rglob("*.json") if file.is_file() and file.stat().st_size < LARGEST_SEED]
    lists = [file.read_bytes().partition(b'"traceEvents"')[2].partition(b"[")[2] for file in sorted(small)]
    files = []
    for number, text in enumerate([*SEEDS, *lists]):
        files.append(folder / f"seed-{number}")
        files[-1].write_bytes(b"\1\0" + text)
    return files


def layout_in_c() -> str:
    """The layout that traces are read with, as a function in C++."""
    lines = ["inline stepscope::Layout fuzz_layout() {", "    stepscope::Layout layout;"]
    for key, kind, dictionary in LAYOUT.slots:
        lines.append(f'    layout.slots.push_back({{"{key}", static_cast<stepscope::Kind>({kind}), {dictionary}}});')
    for table, columns in enumerate(LAYOUT.columns):
        lines += [f"    layout.tables[{table}].push_back({{{slot}, {other}}});" for slot, other in columns]
    lines += [f'    layout.device_categories.push_back("{category.decode()}");' for category in LAYOUT.categories]
    dictionaries = len(set(LAYOUT.dictionaries.values()))
    return "\n".join([*lines, f"    layout.dictionaries = {dictionaries};", "    return layout;", "}", ""])


def built() -> tuple[Path, bool]:
    """The program, and whether it is guided by coverage."""
    (BUILD / "layout.inc").write_text(layout_in_c())
    clang = next((found for name in CLANGS if (found := shutil.which(name))), None)
    compiler = clang or shutil.which("g++")
    if compiler is None:
        sys.exit("Neither clang++ nor g++ was found. Install one: apt-get install clang")
    program = BUILD / "fuzz_scanner"
    options = [f"-fsanitize=fuzzer,{SANITIZERS}"] if clang else [f"-fsanitize={SANITIZERS}", "-DSTEPSCOPE_OWN_MAIN"]
    folders = [f"-I{BUILD}", f"-I{ROOT / 'src' / 'stepscope' / 'native'}"]
    common = ["-std=c++17", "-O2", "-g", "-fno-sanitize-recover=all", *folders, str(SOURCE), "-o", str(program)]
    subprocess.run([compiler, *options, *common], check=True)
    return program, clang is not None


def blind(program: Path, minutes: float, seed: int, files: list[Path]) -> tuple[int, bool]:
    """Inputs tried in so many minutes, and whether one failed."""
    print(f"seed {seed}: the same seed tries the same inputs again", flush=True)
    command = [str(program), str(int(minutes * 60)), str(seed), *map(str, files)]
    done = subprocess.run(command, cwd=BUILD, env=FAST, stdout=subprocess.PIPE, text=True, check=False)
    told = re.findall(r"(\d+) inputs", done.stdout)
    return int(told[-1]) if told else 0, done.returncode != 0


def guided(program: Path, minutes: float, jobs: int) -> tuple[int, bool]:
    """As `blind`, of several processes of libFuzzer."""
    found = BUILD / "found"
    found.mkdir(exist_ok=True)
    limits = [f"-max_total_time={int(minutes * 60)}", "-max_len=4096", "-timeout=20", "-print_final_stats=1"]
    processes = []
    for job in range(jobs):
        log = (BUILD / f"job-{job}.log").open("w")
        command = [str(program), *limits, "-verbosity=1", str(found), str(BUILD / "seeds")]
        processes.append(subprocess.Popen(command, cwd=BUILD, stdout=log, stderr=log))
    failed = sum(process.wait() != 0 for process in processes)
    logs = [(BUILD / f"job-{job}.log").read_text() for job in range(jobs)]
    inputs = sum(int(number) for log in logs for number in re.findall(r"number_of_executed_units: (\d+)", log))
    return inputs, failed > 0


def scanner() -> str:
    """What tells this scanner and this program from others."""
    sources = sorted((ROOT / "src" / "stepscope" / "native").glob("*.hpp"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in [*sources, SOURCE])).hexdigest()[:12]


def total(ledger: Path | None, row: dict[str, object]) -> int:
    """Add a run to the ledger, if there is one; inputs of all runs with the same scanner."""
    rows = [row]
    if ledger is not None:
        with ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    return sum(one["inputs"] for one in rows if one["scanner"] == row["scanner"])  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of blind mutations")
    parser.add_argument("--jobs", type=int, default=1, help="processes, with clang")
    parser.add_argument("--ledger", type=Path, help="file with the inputs tried so far")
    options = parser.parse_args()
    files = seeds(BUILD / "seeds")
    program, is_guided = built()
    until = time.monotonic() + options.minutes * 60
    failed = False
    for number in range(math.ceil(options.minutes / SLICE_MINUTES)):
        minutes = min(SLICE_MINUTES, (until - time.monotonic()) / 60)
        if minutes <= 0 or failed:
            break
        seed = options.seed + number
        inputs, failed = guided(program, minutes, options.jobs) if is_guided else blind(program, minutes, seed, files)
        row = {"scanner": scanner(), "seed": None if is_guided else seed, "inputs": inputs, "failed": failed}
        print(f"{inputs} inputs, {total(options.ledger, row)} in all, {int(failed)} failures; in {BUILD}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
