"""Exact time, the same tables from every layout, and no crash on any damage."""

import codecs
import gzip
import json
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stepscope.core.errors import BadInput
from stepscope.core.importing import Importer, Sink
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Run
from stepscope.importers.kineto.decimals import FARTHEST, nanoseconds, whole_number

from ..thoroughness import tries

pytestmark = pytest.mark.slow

KINETO = PluginGroup("importers", Importer).get("kineto")
HOUR = 3_600 * 10**9
BASE = 1_790_857_026_000_000_000

decimal_texts = st.one_of(
    st.integers(-(10**16), 10**16).map(str),
    st.builds("{}.{}".format, st.integers(-(10**13), 10**13), st.text("0123456789", min_size=1, max_size=20)),
    st.builds("{}.{:03}".format, st.integers(0, 10**13), st.integers(0, 999)),
    st.builds("{}e{}".format, st.floats(-1e6, 1e6, allow_nan=False).map(str), st.integers(-20, 9))
    .filter(lambda text: text.count("e") == 1),
)  # fmt: skip


@given(decimal_texts)
@example("30.249999999999999")
@example("4317199942292.6855")  # half a nanosecond: to the even one
@example("0.0005")
@example("-0.0005")
@example("3.025E+1")
@example("1728000000000000.25")
def test_decimal_text_becomes_the_nearest_nanosecond(text: str) -> None:
    assert nanoseconds(text) == max(-FARTHEST, min(FARTHEST, round(Fraction(text) * 1000)))


@given(st.integers(-(10**40), 10**40))
def test_whole_microseconds(number: int) -> None:
    assert nanoseconds(number) == max(-FARTHEST, min(FARTHEST, number * 1000))


@pytest.mark.parametrize(
    "value", ["", "nan", "inf", "1_0", "0x10", "1e", ".", "1.2.3", "١", "1" * 400, None, True, [], {}]
)
def test_what_is_no_number_is_no_time(value: object) -> None:
    assert nanoseconds(value) is None
    assert whole_number(value) is None


@pytest.mark.parametrize("text", ["1e999999", "9.2e+18", "1e30", "9" * 40])
def test_far_times_are_cut_not_wrapped(text: str) -> None:
    assert nanoseconds(text) == FARTHEST


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ranges: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    name=names,
    start=st.integers(0, HOUR),
    length=st.integers(0, 10**9),
    cat=st.sampled_from(["cpu_op", "user_annotation", "cuda_runtime", "python_function", "kernel", "gpu_memcpy"]),
    correlation=st.one_of(st.none(), st.integers(0, 2**40)),
)


def microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


def as_json(event: dict[str, Any], quote: str = "") -> str:
    """One event as JSON text with exact decimals; `quote` '"' writes the times as text."""
    args = {} if event["correlation"] is None else {"correlation": event["correlation"]}
    parts = {
        "ph": '"X"', "cat": json.dumps(event["cat"]), "name": json.dumps(event["name"]), "pid": "7", "tid": "8",
        "ts": quote + microseconds(event["start"]) + quote, "dur": quote + microseconds(event["length"]) + quote,
        "args": json.dumps(args),
    }  # fmt: skip
    return "{" + ", ".join(f'"{key}": {value}' for key, value in parts.items()) + "}"


HEADER = f'"schemaVersion": 1, "deviceProperties": [], "baseTimeNanoseconds": {BASE}'


def compact(events: list[dict[str, Any]]) -> str:
    return "{" + HEADER + ', "traceEvents": [' + ",".join(map(as_json, events)) + "]}"


def pretty(events: list[dict[str, Any]]) -> str:
    lines = ",\n".join("  " + as_json(event).replace(", ", ",\n    ") for event in events)
    return "{\n " + HEADER.replace(", ", ",\n ") + ',\n "traceEvents": [\n' + lines + "\n ]\n}\n"


def events_first(events: list[dict[str, Any]]) -> str:
    return '{"traceEvents":[' + ",".join(map(as_json, events)) + "]," + HEADER + "}"


def times_as_text(events: list[dict[str, Any]]) -> str:
    return compact([]).replace("[]}", "[" + ",".join(as_json(event, '"') for event in events) + "]}")


LAYOUTS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    "compact": lambda events: compact(events).encode(),
    "pretty": lambda events: pretty(events).encode(),
    "crlf": lambda events: pretty(events).replace("\n", "\r\n").encode(),
    "events first": lambda events: events_first(events).encode(),
    "times as text": lambda events: times_as_text(events).encode(),
    "gzip": lambda events: gzip.compress(compact(events).encode()),
    "two gzip members": lambda events: (
        gzip.compress(compact(events).encode()[:40]) + gzip.compress(compact(events).encode()[40:])
    ),
    "byte order mark": lambda events: codecs.BOM_UTF8 + compact(events).encode(),
    "utf-16": lambda events: compact(events).encode("utf-16"),
    "trailing comma": lambda events: compact(events).replace("]}", ", ]}").encode(),  # read by the tolerant reader
}


def read(data: bytes) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        path.write_bytes(data)
        sink = Sink()
        KINETO.read(path, sink)
        return sink.run(str(path))


def accounted(run: Run) -> int:
    """Events of the source, each of which is in a table or counted."""
    tables = ("host", "device", "memory", "flows", "instants", "counters")
    meta = dict(run.optional("meta").select("key", "value").rows())
    placed = sum(run.optional(table)["index"].n_unique() for table in tables) + int(meta["metadata_events"])
    assert placed + int(meta["events_left_out"]) == int(meta["events"])
    return int(meta["events"])


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=st.lists(ranges, min_size=1, max_size=6))
def test_every_layout_gives_the_events_that_were_written(layout: str, events: list[dict[str, Any]]) -> None:
    run = read(LAYOUTS[layout](events))
    columns = ("index", "name", "start", "end", "correlation")
    found = pl.concat([run.optional(table).select(columns) for table in ("host", "device")]).sort("index")
    assert found.rows() == [
        (index, event["name"], BASE + event["start"], BASE + event["start"] + event["length"], event["correlation"])
        for index, event in enumerate(events)
    ]
    assert set(run.optional("host")["pid"]) | set(run.optional("device")["pid"]) <= {"7"}


@settings(max_examples=tries(60, 1000), deadline=None)
@given(events=st.lists(ranges, min_size=1, max_size=5), data=st.data())
def test_a_truncated_file_keeps_its_first_events(events: list[dict[str, Any]], data: st.DataObject) -> None:
    text = pretty(events)
    first = text.index("[\n") + 2
    cut = data.draw(st.integers(first, len(text.rstrip()) - 2))
    whole = _whole(events, text[:cut])
    try:
        run = read(text[:cut].encode())
    except BadInput as error:
        assert whole == 0
        assert "truncated" in str(error)  # noqa: PT017
        return
    assert len(run.optional("host")) + len(run.optional("device")) == whole
    assert any("truncated" in reason for reason in run.optional("skipped")["reason"])


def _whole(events: list[dict[str, Any]], text: str) -> int:
    """How many events stand whole in `text`."""
    end = text.index("[\n") + 2
    for count, event in enumerate(events):
        end += len("  " + as_json(event).replace(", ", ",\n    "))
        if end > len(text):
            return count
        end += len(",\n")
    return len(events)


@settings(max_examples=tries(100, 2000), deadline=None)
@given(events=st.lists(ranges, min_size=1, max_size=4), data=st.data())
def test_no_damage_crashes_the_reader(events: list[dict[str, Any]], data: st.DataObject) -> None:
    whole = bytearray(pretty(events).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        run = read(bytes(whole))
    except BadInput as error:
        assert "a.json" in str(error)  # noqa: PT017
        return
    accounted(run)


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), names,
        st.sampled_from(["1", "1.5", "inf", "nan", -1, 0, 2**31, 2**63]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=2)),
    max_leaves=4,
)  # fmt: skip
ARGUMENTS = (
    "device", "stream", "correlation", "External id", "external id", "bytes", "memory bandwidth (GB/s)", "grid",
    "block", "registers per thread", "shared memory", "blocks per SM", "est. achieved occupancy %", "Collective name",
    "dtype", "In msg nelems", "graph node id", "Sequence number", "Fwd thread id", "Input Dims", "Input type",
    "Call stack", "Python id", "Python parent id", "Bytes", "Device Type", "Device Id", "Addr", "name", "labels",
)  # fmt: skip
HEADER_KEYS = ("baseTimeNanoseconds", "host_name", "with_stack", "schemaVersion")
CATEGORIES = ["cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "cuda_sync", "gpu_user_annotation", "python_function"]
any_event = st.fixed_dictionaries(
    {"ph": st.one_of(st.sampled_from("XXXiCsfMBQ"), json_values)},
    optional={
        "cat": st.one_of(st.sampled_from(CATEGORIES), json_values),
        "name": st.one_of(st.sampled_from(["[memory]", "thread_name", "process_name", "process_labels"]), json_values),
        **{key: st.one_of(st.integers(0, 10**9), json_values) for key in ("ts", "dur", "pid", "tid", "id")},
        "args": st.one_of(st.fixed_dictionaries({}, optional=dict.fromkeys(ARGUMENTS, json_values)), json_values),
    },
)
properties = st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "name", "numSms", "computeMajor"), json_values))
any_header = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(HEADER_KEYS, json_values),
        "deviceProperties": st.one_of(st.lists(properties, max_size=2), json_values),
        "distributedInfo": st.fixed_dictionaries({}, optional={"rank": json_values, "world_size": json_values}),
    },
)


@settings(max_examples=tries(100, 2000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=st.lists(any_event, min_size=1, max_size=4), header=any_header)
def test_values_of_any_type_are_read(events: list[dict[str, Any]], header: dict[str, Any]) -> None:
    run = read(json.dumps({**header, "traceEvents": events}).encode())
    assert accounted(run) == len(events)
    for table in ("host", "device"):
        rows = run.optional(table)
        assert (rows["end"] >= rows["start"]).all()


@pytest.mark.parametrize("depth", [100, 900, 5_000, 100_000])
def test_nesting_of_any_depth_is_read_or_counted(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    deep = '{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "args": {"Input Dims": ' + nested + "}}"
    plain = '{"ph": "X", "name": "b", "ts": 1, "dur": 1}'
    run = read(f'{{"user": {nested}, "traceEvents": [{deep}, {plain}]}}'.encode())
    assert run.optional("host")["name"].to_list()[-1] == "b"
    assert accounted(run) == 2


def test_nesting_at_the_limit_of_python(tmp_path: Path) -> None:
    """Reading a value takes one level less of Python's stack than writing it: somewhere only one of the two works."""
    path = tmp_path / "a.json"
    for depth in range(1_000 - 150, 1_000):
        path.write_text(f'{{"user": {"[" * depth}{"]" * depth}, "traceEvents": [{{"ph": "X", "ts": 1, "dur": 1}}]}}')
        sink = Sink()
        KINETO.read(path, sink)
        assert accounted(sink.run("")) == 1
