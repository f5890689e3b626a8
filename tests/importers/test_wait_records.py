"""Which event record a synchronization waits for, as traces with synchronization events say it."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from stepscope.core.importing import Sink
from stepscope.importers import append
from stepscope.storage import open_run


def sync(name: str, **arguments: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cuda_sync", "name": name, "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": arguments}


CALL = {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 1, "tid": 1, "ts": 0, "dur": 1}
EVENTS = [
    {**CALL, "args": {"correlation": 32}},
    sync("Event Sync", correlation=24, wait_on_stream=-1, wait_on_cuda_event_record_corr_id=-1),
    sync("Stream Wait Event", correlation=54, wait_on_stream=20, wait_on_cuda_event_record_corr_id=32),
    sync("Stream Sync", correlation=60),
]
COLUMNS = ("correlation", "waits_for_record", "waits_for_stream")


def test_the_record_and_its_stream(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    assert open_run(path).optional("device", *COLUMNS).rows() == [(24, -1, -1), (54, 32, 20), (60, None, None)]


def test_records_stay_with_their_calls_where_traces_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    sink = Sink()
    for _ in range(2):
        append(path, sink)
    run = sink.run("joined")
    records = run.optional("host").filter(pl.col("name") == "cudaEventRecord")["correlation"].to_list()
    waits = run.optional("device", *COLUMNS).drop_nulls()
    assert len(set(records)) == 2
    assert waits["waits_for_record"].to_list() == [-1, records[0], -1, records[1]]
    assert waits["waits_for_stream"].to_list() == [-1, 20, -1, 20]
