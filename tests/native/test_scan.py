"""Reading as it goes: progress, streams that cannot seek, interruption, and what happens without compiled code."""

import gzip
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stepscope.core.importing import Sink
from stepscope.importers.kineto.scan import Cutting, Unfit, scan
from stepscope.importers.kineto.scanned import read_scanned

EVENT = '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 17.250, "dur": 2.5, "args": {}}'
EVENTS = 600_000  # of a trace that takes a second or so to read; a piece takes some milliseconds

READ = """
import sys
from pathlib import Path
from stepscope.core.importing import Sink
from stepscope.importers import importer_of
path = Path(sys.argv[1])
importer_of(path).read(path, Sink(progress=lambda *state: print(*state, flush=True)))
"""


def trace(path: Path, events: int) -> Path:
    text = '{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join([EVENT] * events) + "\n]}"
    path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_progress_goes_from_nothing_to_the_whole_file(tmp_path: Path, name: str) -> None:
    path = trace(tmp_path / name, 2_000)
    states: list[tuple[int, int, int]] = []
    read_scanned(path, Sink(progress=lambda *state: states.append(state)), Cutting(10_000, 2))
    assert len(states) > 10
    assert states == sorted(states)
    assert states[-1] == (path.stat().st_size, path.stat().st_size, 2_000)
    assert states[0][2] < 2_000


def test_stream_that_cannot_seek(tmp_path: Path) -> None:
    path, pipe = trace(tmp_path / "a.json.gz", 500), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writer.start()
    assert scan(pipe, Cutting(5_000, 2)).columns.count == 500
    writer.join()


def test_an_event_may_be_longer_than_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    long = EVENT.replace("aten::add", "k" * 100_000)
    path.write_text('{"traceEvents": [' + ", ".join([EVENT, long, EVENT, long]) + "]}")
    sink = Sink()
    read_scanned(path, sink, Cutting(300, 2))
    assert sink.parts["host"][0]["name"].str.len_chars().to_list() == [9, 100_000, 9, 100_000]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_interrupt_stops_at_once(tmp_path: Path, name: str) -> None:
    path = trace(tmp_path / name, EVENTS)
    with subprocess.Popen(
        [sys.executable, "-c", READ, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline().split()[-1]) < EVENTS / 2
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert process.returncode != 0
    assert all(int(line.split()[-1]) < EVENTS for line in told.splitlines()), "it had not read to the end"


def test_without_compiled_code_it_is_said_how_to_get_it() -> None:
    code = "import sys; sys.modules['stepscope.native._scanner'] = None; import stepscope.native"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "apt install g++" in done.stderr


def test_a_file_for_the_other_reader_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": [' + EVENT + ', {"ph": "X", "args": {"traceEvents": []}}]}')
    sink = Sink()
    with pytest.raises(Unfit):
        read_scanned(path, sink)
    assert not sink.parts
    assert not sink.skipped
