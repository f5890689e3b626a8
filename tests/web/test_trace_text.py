"""The trace that is handed to Perfetto: exact times from the first moment, and nothing left out."""

import json
from typing import Any

import pytest

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.web.trace_text import count, trace_text

EPOCH = 1_700_000_000_000  # ms: as ns too large for the numbers of a viewer


@pytest.fixture
def run() -> Run:
    synth = Synth().host("aten::mm", "operator", EPOCH, EPOCH + 10, input_dims='[["a"]]')
    synth.host("cudaLaunchKernel", "runtime", EPOCH + 1, EPOCH + 2, correlation=7)
    synth.host("crossing", "operator", EPOCH + 5, EPOCH + 15)
    synth.kernel(EPOCH + 4, EPOCH + 12.5, 'gemm "quoted"', correlation=7, grid="[8, 1, 1]")
    return synth.add("counters", name="queue", time=(EPOCH + 3) * MS, value=3.5).run()


def events(run: Run, start: float = 0, end: float = 100) -> list[dict[str, Any]]:
    window = round((EPOCH + start) * MS), round((EPOCH + end) * MS)
    found: list[dict[str, Any]] = json.loads("".join(trace_text(run, window)))["traceEvents"]
    assert sum(event["ph"] in ("X", "C") for event in found) == count(run, window)
    return found


def test_times_are_exact_from_the_first_moment(run: Run) -> None:
    text = "".join(trace_text(run, (EPOCH * MS, (EPOCH + 100) * MS)))
    start, end = run.optional("device", "start", "end").row(0)
    length = f"{(end - start) // 1000}.{(end - start) % 1000:03d}"
    assert f'"name":"gemm \\"quoted\\"","cat":"compute","ts":4000.000,"dur":{length},"args":{{' in text
    (kernel,) = (event for event in events(run) if event.get("cat") == "compute" and "grid" in event["args"])
    assert kernel["args"] == {"kind": "kernel", "grid": "[8, 1, 1]", "correlation": 7}


def test_spans_that_cross_have_threads_of_their_own(run: Run) -> None:
    threads = {event["name"]: event["tid"] for event in events(run) if event["ph"] == "X" and event["pid"] == 2}
    assert threads["aten::mm"] == threads["cudaLaunchKernel"] != threads["crossing"]


def test_an_arrow_leads_from_a_launch_to_its_kernel(run: Run) -> None:
    ways = {event["ph"]: (event["pid"], event["ts"]) for event in events(run) if event["ph"] in "sf"}
    assert {phase: time for phase, (_, time) in ways.items()} == {"s": 1000, "f": 4000}
    assert ways["s"][0] != ways["f"][0]


def test_of_a_window_only_what_touches_it_is_there(run: Run) -> None:
    names = {event["name"] for event in events(run, 13, 14) if event["ph"] == "X"}
    assert names == {"crossing"}


def test_counters_and_names_are_there(run: Run) -> None:
    found = events(run)
    assert [(event["ts"], event["args"]) for event in found if event["ph"] == "C" and event["name"] == "queue"] == [
        (3000, {"value": 3.5})
    ]
    named = {event["args"]["name"] for event in found if event["ph"] == "M" and "name" in event["args"]}
    assert {"rank 0", "critical path", "GPU 0 stream 7"} <= named
