"""The place where the list of events ends, and traces written anew."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.export.repaired import repaired_trace
from stepscope.export.splice import Open, list_end, spliced
from stepscope.importers.kineto.stream import opened

EVENT = '{"ph": "X", "name": "a ], \\"b\\": [1]}", "ts": 1.250, "args": {"dims": [[1, 2], [3]], "x": {"y": [1]}}}'
ADDED = b'{"ph":"X","name":"new"}'


def written(path: Path) -> bytes:
    with opened(path) as stream:
        return b"".join(spliced(stream, iter([ADDED, ADDED])))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"schemaVersion": 1, "deviceProperties": [{{"id": 0}}], "traceEvents": [\n{EVENT},\n{EVENT}\n]}}',
        f'{{"traceEvents": [{EVENT}], "distributedInfo": {{"ranks": [0, 1]}}, "list": [{{"a": [2]}}]}}\n',
        f"[{EVENT}, {EVENT}]",
        f'{{"deviceProperties": [], "traceEvents": [{EVENT}], "last": []}}',
    ],
)
def test_events_come_behind_the_last_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    before, found = json.loads(text), json.loads(written(path))
    if isinstance(before, dict):
        events, before["traceEvents"] = found["traceEvents"], before["traceEvents"] + events_added()
        assert events[:-2] == before["traceEvents"][:-2]
        assert found == before
    else:
        assert found == before + events_added()


def events_added() -> list[object]:
    return [json.loads(ADDED)] * 2


@pytest.mark.parametrize("text", ['{"traceEvents": []}', "[]", '{"traceEvents": [ ], "traceName": "t"}'])
def test_an_empty_list_gets_events(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    found = json.loads(written(path))
    assert (found["traceEvents"] if isinstance(found, dict) else found) == events_added()


def test_every_byte_of_a_long_trace_stays(tmp_path: Path) -> None:
    head = '{"traceEvents": [\n'
    events = ",\n".join(EVENT.replace('"a ]', f'"{number} ]') for number in range(40_000))
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(f'{head}{events}\n], "traceName": "t"}}'.encode(), 1))
    assert written(path).decode() == f'{head}{events},\n{ADDED.decode()},\n{ADDED.decode()}\n], "traceName": "t"}}'


@pytest.mark.parametrize("text", [f'{{"traceEvents": [{EVENT}', f'{{"traceEvents": [{EVENT}]', f"[{EVENT}, ]}}"])
def test_a_list_without_its_end_is_not_taken_for_sound(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(Open):
        written(path)


def test_a_bracket_in_front_of_the_events_is_not_their_end() -> None:
    assert list_end(b'{"a": [1], "traceEvents": [{"ph": "X"}]}', in_object=True) == 38


def no_events() -> Iterator[bytes]:
    return iter([ADDED])


def test_a_damaged_trace_is_written_anew_with_its_decimals(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        '{"baseTimeNanoseconds": 17, "traceEvents": [{"ph": "X", "name": "C:\\Users", "ts": 1733768849514071.115},'
        ' {"ph": "X", "name": "b", "ts": "7", "dur": N/A}, {"ph": "X", "na'
    )
    text = b"".join(repaired_trace(path, no_events())).decode()
    assert '"ts": 1733768849514071.115' in text
    found = json.loads(text)
    assert found["baseTimeNanoseconds"] == 17
    assert [event["name"] for event in found["traceEvents"]] == ["C:\\Users", "b", "new"]
    assert found["traceEvents"][1]["ts"] == "7"
