"""Fuzz the scanner under AddressSanitizer and UndefinedBehaviorSanitizer; says how many inputs it tried.

Coverage-guided with clang's libFuzzer; where there is only another compiler, mutations of the seeds are blind. Seeds
are small events written here, and the lists of the corpus' small traces if there is a corpus (STEPSCOPE_CORPUS, else
../shared). An input that fails is kept in the folder of the build, which the last line names.

Usage: python tools/fuzz_scanner.py [--minutes N] [--jobs N]
"""

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of blind mutations")
    parser.add_argument("--jobs", type=int, default=1, help="processes, with clang")
    options = parser.parse_args()
    files = seeds(BUILD / "seeds")
    program, guided = built()
    seconds = str(int(options.minutes * 60))
    if not guided:
        print(f"seed {options.seed}: the same seed tries the same inputs again")
        sys.exit(subprocess.run([program, seconds, str(options.seed), *files], cwd=BUILD, env=FAST).returncode)
    found = BUILD / "found"
    found.mkdir(exist_ok=True)
    limits = [f"-max_total_time={seconds}", "-max_len=4096", "-timeout=20", "-print_final_stats=1", "-verbosity=1"]
    processes = []
    for job in range(options.jobs):
        log = (BUILD / f"job-{job}.log").open("w")
        command = [str(program), *limits, str(found), str(BUILD / "seeds")]
        processes.append(subprocess.Popen(command, cwd=BUILD, stdout=log, stderr=log))
    failed = sum(process.wait() != 0 for process in processes)
    logs = [(BUILD / f"job-{job}.log").read_text() for job in range(options.jobs)]
    inputs = sum(int(number) for log in logs for number in re.findall(r"number_of_executed_units: (\d+)", log))
    print(f"{inputs} inputs in {options.jobs} x {options.minutes} minutes, {failed} failures; logs in {BUILD}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
