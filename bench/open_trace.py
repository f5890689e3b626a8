"""How long it takes to open a trace, what memory that needs, and how that grows with the file.

A trace of the size asked for is made by tiling a real one: every tile lies behind the one before it in time, and its
ids are new. Each row is a fresh process that ends when the events are in tables; CPU is user + system time of the
process with its imports, memory its largest resident set. The peers run on the same file in the same session:

- json + pandas: `json.load`, then a data frame of the list of events;
- orjson + polars: `orjson.loads`, then the columns that stepscope has, one by one;
- HTA: `parse_trace_dataframe` of HolisticTraceAnalysis (`traceinsight` on PyPI).

Usage: python bench/open_trace.py [--size MB] [--runs N] [--curve] [--no-peers] [--trace FILE]
The trace to tile is found in the corpus (STEPSCOPE_CORPUS, else ../shared); made files are kept in .cache/bench.
"""

import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stepscope.storage.cache import VARIABLE

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".cache" / "bench"
TILED = "traces/hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
CURVE = (10, 30, 100, 300, 1000, 2000, 4000)  # MB
PEERS = ("pandas", "orjson", "polars", "traceinsight")
_TIME = re.compile(rb'"ts": (\d+)\.(\d+)')
_IDS = re.compile(rb'"(External id|correlation|Ev Idx|id)": (\d+)')
_HOUR = 3_600 * 10**6  # us

STEPSCOPE = """
import sys
from pathlib import Path
from stepscope.core.importing import Sink
from stepscope.importers import importer_of
path, sink = Path(sys.argv[1]), Sink()
importer_of(path).read(path, sink)
print(sum(len(frame) for table, frames in sink.parts.items() if table in ("host", "device", "memory", "flows",
      "instants") for frame in frames))
"""
AGAIN = """
import sys
from stepscope.storage import open_run
run = open_run(sys.argv[1], use_cache=True)
print(run.table("host", "start", "end", how="").height)
"""
JSON_PANDAS = """
import json, sys
import pandas
with open(sys.argv[1]) as file:
    frame = pandas.DataFrame(json.load(file)["traceEvents"])
print(len(frame))
"""
ORJSON_POLARS = """
import sys
import orjson, polars
with open(sys.argv[1], "rb") as file:
    events = orjson.loads(file.read())["traceEvents"]
keys = ("ph", "cat", "name", "pid", "tid", "ts", "dur")
columns = {key: [event.get(key) for event in events] for key in keys}
args = ("External id", "correlation", "stream", "device", "bytes", "Sequence number", "Input Dims", "grid", "block")
found = [event.get("args") or {} for event in events]
columns |= {key: [arguments.get(key) for arguments in found] for key in args}
print(len(polars.DataFrame({key: polars.Series(values, strict=False) for key, values in columns.items()})))
"""
HTA = """
import sys
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
print(len(parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())[1]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one process: seconds of wall clock and of CPU, largest resident set in bytes, and what it counted."""

    wall: float
    cpu: float
    memory: int
    events: str


def corpus() -> Path:
    """The folder with the real traces."""
    return Path(os.environ.get("STEPSCOPE_CORPUS", ROOT.parent / "shared"))


def tiled(size: int, source: Path) -> Path:
    """A trace of about `size` MB made from `source`; kept for the next time."""
    target = KEPT / f"{source.name.split('.')[0]}-{size}.json"
    if target.exists():
        return target
    print(f"making {target} …", file=sys.stderr, flush=True)
    text = gzip.decompress(source.read_bytes())
    start = text.index(b'"traceEvents": [') + len(b'"traceEvents": [')
    end = start + json.JSONDecoder().raw_decode(text[start - 1 :].decode())[1] - 2  # the text is ASCII
    assert text[end : end + 1] == b"]"
    events = text[start:end].rstrip()
    times = [int(match[1]) for match in _TIME.finditer(events)]
    middle = statistics.median_low(times)
    near = [time for time in times if abs(time - middle) < _HOUR]  # some markers have no time to speak of
    span = max(near) - min(near) + 1_000
    most = max(int(match[2]) for match in _IDS.finditer(events)) + 1
    KEPT.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        file.write(text[:start])
        tile = 0
        while file.tell() < size * 1_000_000:
            file.write(b"," * bool(tile) + _moved(events, tile * span, tile * most))
            tile += 1
        file.write(b"\n" + text[end:])
    unfinished.rename(target)
    return target


def _moved(events: bytes, time: int, ids: int) -> bytes:
    later = _TIME.sub(lambda match: b'"ts": %d.%s' % (int(match[1]) + time, match[2]), events)
    return _IDS.sub(lambda match: b'"%s": %d' % (match[1], int(match[2]) + ids), later)


def packed(trace: Path) -> Path:
    """`trace` as gzip."""
    target = trace.with_suffix(".json.gz")
    if not target.exists():
        with gzip.open(target, "wb", compresslevel=6) as file, trace.open("rb") as plain:
            while piece := plain.read(1 << 20):
                file.write(piece)
    return target


def cost_of(python: Path, code: str, trace: Path) -> Cost | None:
    """Run `code` on `trace` in a fresh process; None if it fails, which is said."""
    began = time.perf_counter()
    with subprocess.Popen([python, "-c", code, trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        output, errors = process.stdout.read(), process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print(f"failed: {errors.decode()[-600:]}", file=sys.stderr)
        return None
    wall, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
    return Cost(wall=wall, cpu=cpu, memory=used.ru_maxrss * 1024, events=output.decode().split()[-1])


def measured(name: str, python: Path, code: str, trace: Path, runs: int) -> None:
    """Print the median of `runs` processes, each value on its own."""
    costs = [cost for cost in (cost_of(python, code, trace) for _ in range(runs)) if cost]
    if not costs:
        print(f"{name:<28} failed")
        return
    wall, cpu = (statistics.median(getattr(cost, what) for cost in costs) for what in ("wall", "cpu"))
    memory = statistics.median(cost.memory for cost in costs)
    size = trace.stat().st_size
    print(
        f"{name:<28} {size / 1e6:8.0f} MB {wall:8.2f} s wall {cpu:8.2f} s CPU {memory / 1e9:6.2f} GB "
        f"{size / 1e6 / cpu:7.0f} MB/CPU-s {costs[0].events:>10} rows",
        flush=True,
    )


def peer_python() -> Path:
    """The Python of an environment with the peers, made at first."""
    environment = KEPT / "peers"
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="MB of the trace")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--curve", action="store_true", help="also 10 MB to 4 GB")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--trace", type=Path, help="the real trace that is tiled, gzip")
    options = parser.parse_args()
    source = options.trace or corpus() / TILED
    here = Path(sys.executable)
    trace = tiled(options.size, source)
    print(json.dumps({"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0], "runs": options.runs}))
    measured("stepscope", here, STEPSCOPE, trace, options.runs)
    measured("stepscope, gzip", here, STEPSCOPE, packed(trace), options.runs)
    os.environ[VARIABLE] = str(KEPT / "cache")
    cost_of(here, AGAIN, trace)  # fills the cache
    measured("stepscope, second opening", here, AGAIN, trace, options.runs)
    if not options.no_peers:
        peers = peer_python()
        measured("json + pandas", peers, JSON_PANDAS, trace, options.runs)
        measured("orjson + polars", peers, ORJSON_POLARS, trace, options.runs)
        measured("HTA", peers, HTA, trace, options.runs)
    for size in CURVE if options.curve else ():
        measured("stepscope, curve", here, STEPSCOPE, tiled(size, source), options.runs)


if __name__ == "__main__":
    main()
