"""What the analyses cost after a trace is loaded: each one's CPU, and all together against HTA's on the same trace.

An analysis computes what others share at its first use, so costs of single ones depend on the order (that of their
names); their sum does not. Tables are in memory beforehand. HTA's are those of its notebooks that a trace of one rank
allows; loading is in neither figure.

Usage: python bench/all_analyses.py [--size MB] [--top N] [--no-peer] [--only NAME …]
"""

import argparse
import subprocess
import time
from pathlib import Path

from open_trace import TILED, corpus, peer_python, tiled
from stepscope.core.memory import import_arrays, keep_freed_memory

import_arrays()  # before the modules below import it
# ruff: noqa: E402

from stepscope.core.errors import MissingData
from stepscope.core.importing import Sink
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import TABLES
from stepscope.importers import importer_of
from stepscope.report.diagnose import diagnose

HTA = """
import sys, time
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
for name, options in (
    ("get_temporal_breakdown", {"visualize": False}),
    ("get_idle_time_breakdown", {"visualize": False}),
    ("get_gpu_kernel_breakdown", {"visualize": False}),
    ("get_comm_comp_overlap", {"visualize": False}),
    ("get_cuda_kernel_launch_stats", {"visualize": False}),
    ("get_queue_length_summary", {}),
    ("get_memory_bw_summary", {}),
):
    began = time.process_time()
    try:
        getattr(analysis, name)(**options)
        failed = ""
    except Exception as error:
        failed = f" failed: {type(error).__name__}: {error}"
    print(f"HTA {name} {time.process_time() - began:.3f}{failed}", flush=True)
"""


def opened(trace: Path) -> Run:
    """The run with all tables in memory, opened as the commands do it."""
    sink = Sink()
    importer_of(trace).read(trace, sink)
    keep_freed_memory()
    return sink.run(str(trace))


def cost_of(analysis: Analysis, run: Run) -> tuple[float, str]:
    """CPU seconds of all threads, and how many rows came or why none did."""
    began = time.process_time()
    try:
        said = f"{analysis(run).height} rows"
    except MissingData as missing:
        said = f"not applicable: {missing}"[:100]
    return time.process_time() - began, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="MB of the trace")
    parser.add_argument("--top", type=int, default=100, help="print the N most expensive")
    parser.add_argument("--only", nargs="*", help="these analyses, in this order")
    parser.add_argument("--no-peer", action="store_true")
    options = parser.parse_args()
    trace = tiled(options.size, corpus() / TILED)
    run = opened(trace)
    events = sum(run.rows(table) for table in TABLES)
    analyses = PluginGroup("analyses", Analysis)
    costs = {name: cost_of(analyses.get(name), run) for name in options.only or analyses.names()}
    for name, (cost, said) in sorted(costs.items(), key=lambda item: -item[1][0])[: options.top]:
        print(f"{name:<28} {cost:8.3f} s CPU   {said}")
    total = sum(cost for cost, _ in costs.values())
    print(f"{'all analyses':<28} {total:8.3f} s CPU   {events} rows: {total / events * 1e6:.2f} s a million")
    began = time.process_time()
    diagnose(run)
    print(f"{'then all rules':<28} {time.process_time() - began:8.3f} s CPU")
    if not options.no_peer:
        subprocess.run([peer_python(), "-c", HTA, trace], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
