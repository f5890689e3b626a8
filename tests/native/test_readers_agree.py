"""The scanner gives what the reader of whole texts gives: on every trace there is, cut in every way, and on damage."""

import gzip
import json
import random
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.core.importing import Sink
from stepscope.importers.kineto.scan import Cutting, Unfit, scan
from stepscope.importers.kineto.scanned import read_scanned

from ..thoroughness import THOROUGH, tries

pytestmark = pytest.mark.slow

Differences = Callable[..., list[str]]
TINY = (Cutting(64, 1), Cutting(100, 3), Cutting(257, 2), Cutting(1000, 4), Cutting(4096, 2))
USUAL = Cutting()
SMALL = 60_000  # bytes of a file, as it is stored, that is cut into small pieces as well
TINIEST = 256  # bytes of a piece, below which a file of that size is ten thousand pieces
SMALLEST = 25_000  # bytes of a file, as it is stored, that is cut into pieces smaller than that too
LONG = 200_000  # bytes of a file, as it is stored, of which the gate reads each eighth
LARGE = 3_000_000  # bytes of a file, as it is stored, that takes the json module with decimals too long
SLOW_AND_LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large]
KINDS = ("malformed", "hta", "kineto", "local", "paddle", "param", "particle_transformer", "tracelens")


def traces(corpus: Path) -> list[Path]:
    files = [file for kind in KINDS for file in (corpus / "traces" / kind).rglob("*")]
    found = sorted(file for file in files if file.is_file() and file.name.endswith((".json", ".json.gz", ".raw.gz")))
    long = [file for file in found if file.stat().st_size > LONG]
    left_out = set() if THOROUGH else {*long} - {*long[::8]}  # one takes as long as all short ones together
    return [file for file in found if file not in left_out]


def test_every_trace_of_the_corpus(corpus: Path, differences: Differences) -> None:
    found = {file.name: differences(file, USUAL) for file in traces(corpus)}
    assert len(found) > 100
    assert {name: told for name, told in found.items() if told} == {}


def test_damaged_traces_cut_into_tiny_pieces(corpus: Path, differences: Differences) -> None:
    damaged = [file for file in sorted((corpus / "traces" / "malformed").iterdir()) if file.is_file()]
    assert {file.name: told for file in damaged if (told := differences(file, *TINY, USUAL))} == {}


def test_small_traces_cut_into_tiny_pieces(corpus: Path, differences: Differences) -> None:
    small = [file for file in traces(corpus) if file.stat().st_size < SMALL and "malformed" not in file.parts]
    chosen = {file: cuttings_of(file, number) for number, file in enumerate(small)}
    assert {file.name: told for file, cuttings in chosen.items() if (told := differences(file, *cuttings))} == {}
    for how in TINY:
        assert sum(how in cuttings for cuttings in chosen.values()) > tries(20, 50)  # of all profilers


def cuttings_of(file: Path, number: int) -> tuple[Cutting, ...]:
    """In the gate, two of those that a file of its size can be cut into: others than of the file before."""
    fit = [how for how in TINY if how.piece > TINIEST or file.stat().st_size < SMALLEST]
    return tuple(fit) if THOROUGH else tuple({fit[2 * number % len(fit)], fit[(2 * number + 1) % len(fit)]})


def test_times_and_names_equal_those_of_json_with_decimals(corpus: Path) -> None:
    """An independent reading: nothing of stepscope takes part in the expected values."""
    compared = 0
    for file in traces(corpus):
        opener = gzip.open if file.name.endswith(".gz") else open
        if not {"malformed", "paddle"}.isdisjoint(file.parts) or file.stat().st_size > LARGE:
            continue
        try:
            with opener(file, "rt", encoding="utf-8") as stream:
                document = json.load(stream, parse_float=Decimal)
        except ValueError:
            continue
        if not isinstance(document, dict) or "traceEvents" not in document:
            continue
        sink = Sink()
        read_scanned(file, sink)
        compared += equal_rows(document, pl.concat(sink.parts["host"]), pl.concat(sink.parts["device"]))
    assert compared > (900_000 if THOROUGH else 100_000)


def equal_rows(document: dict[str, Any], host: pl.DataFrame, device: pl.DataFrame) -> int:
    base = int(document.get("baseTimeNanoseconds", 0))
    events = document["traceEvents"]
    for table, threads in ((host, "thread"), (device, None)):
        of_row = [events[index] for index in table["index"].to_list()]
        assert table["start"].to_list() == [base + nanoseconds(event["ts"]) for event in of_row]
        lengths = (table["end"] - table["start"]).to_list()
        assert lengths == [max(0, nanoseconds(event["dur"])) for event in of_row]
        assert table["name"].to_list() == [str(event["name"]) for event in of_row]
        arguments = [event.get("args") or {} for event in of_row]
        assert table["correlation"].to_list() == [found.get("correlation") for found in arguments]
        assert table["external_id"].to_list() == [
            found.get("External id", found.get("external id")) for found in arguments
        ]
        if threads:
            assert table[threads].to_list() == [str(event["tid"]) for event in of_row]
    return len(host) + len(device)


def nanoseconds(text: object) -> int:
    return int((Decimal(str(text)) * 1000).to_integral_value(ROUND_HALF_EVEN))


names = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["[memory]", "thread_name", "process_name", "process_labels", "a\ud800b", 'a"b', "\\", "é", "}", "},{"]
    ),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-5, 10**6), st.floats(), names,
    st.sampled_from(["1", "1.5", "-2", "007", "+3", " 4", "1e3", "inf", "nan", "", "9" * 20, 10**17, 10**18, -(2**63)]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=2)),
    max_leaves=4,
)
ARGUMENTS = (
    "device", "stream", "correlation", "External id", "external id", "bytes", "memory bandwidth (GB/s)", "grid", "Seq",
    "block", "registers per thread", "blocks per SM", "est. achieved occupancy %", "Collective name", "Group size",
    "dtype", "graph node id", "Sequence number", "Input Dims", "Input dims", "Call stack", "Process Group Ranks",
    "Python id", "Bytes", "Device Type", "Device Id", "Addr", "name", "labels", "Ev Idx", "traceEvents",
)  # fmt: skip
CATEGORIES = ["cpu_op", "Operator", "kernel", "Kernel", "gpu_memcpy", "cuda_runtime", "python_function", "\u212aernel"]
times = st.one_of(
    st.integers(0, 10**13),
    st.decimals(0, 10**13, places=3).map(str),
    st.integers(0, 10**6).map(lambda n: n / 64),
    values,
)
events = st.fixed_dictionaries(
    {"ph": st.one_of(st.sampled_from("XXXXiIsfCMBQ"), values), "ts": times},
    optional={
        "cat": st.one_of(st.sampled_from(CATEGORIES), values),
        "name": st.one_of(names, values),
        "dur": times,
        **{key: st.one_of(st.integers(0, 9), values) for key in ("pid", "tid", "id")},
        "args": st.one_of(st.dictionaries(st.sampled_from(ARGUMENTS), values, max_size=4), values),
        "other": values,
    },
)
elements = st.lists(st.one_of(events, events, events, values), max_size=6)
layouts = st.sampled_from([{}, {"indent": 1}, {"indent": "\t"}, {"separators": (",", ":")}, {"ensure_ascii": False}])
cuttings = st.builds(Cutting, st.integers(1, 400), st.integers(1, 3))


def document(found: list[Any], layout: dict[str, Any], header: dict[str, Any], *, first: bool) -> bytes:
    parts = {"traceEvents": found, **header} if first else {**header, "traceEvents": found}
    return json.dumps(parts, **layout).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


headers = st.dictionaries(
    st.sampled_from(["schemaVersion", "baseTimeNanoseconds", "deviceProperties", "distributedInfo", "user"]),
    values,
    max_size=3,
)


@settings(max_examples=tries(60, 1000), suppress_health_check=SLOW_AND_LARGE)
@given(found=elements, layout=layouts, header=headers, first=st.booleans(), cutting=cuttings)
def test_events_of_any_shape(
    folder: Path,
    differences: Differences,
    found: list[Any],
    layout: dict[str, Any],
    header: dict[str, Any],
    first: bool,
    cutting: Cutting,
) -> None:
    path = folder / "rank_3.json"
    path.write_bytes(document(found, layout, header, first=first))
    assert differences(path, cutting) == []


@settings(max_examples=tries(100, 2000), suppress_health_check=SLOW_AND_LARGE)
@given(
    found=st.lists(events, min_size=1, max_size=5),
    layout=layouts,
    cutting=cuttings,
    data=st.data(),
)
def test_damage_of_any_kind(
    folder: Path,
    differences: Differences,
    found: list[Any],
    layout: dict[str, Any],
    cutting: Cutting,
    data: st.DataObject,
) -> None:
    text = bytearray(document(found, layout, {"schemaVersion": 1}, first=False))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        damage = data.draw(st.one_of(st.binary(max_size=3), st.sampled_from(DAMAGE)))
        text[at : at + data.draw(st.integers(0, 4))] = damage
    path = folder / "damaged.json"
    path.write_bytes(bytes(text[: data.draw(st.one_of(st.just(len(text)), st.integers(0, len(text))))]))
    assert differences(path, cutting) == []


DAMAGE = [
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"},{", b'},\n{"ph":', b"N/A", b"NaN", b"\x00", b"\xff",
    b"\xc3\xa9", b"\\ud800", b"null", b"-", b"1e", b'"traceEvents": [', b"]}", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_real_trace_with_damage(corpus: Path, differences: Differences, tmp_path: Path, seed: int) -> None:
    """Bytes flipped, cut out and put in, in a file written by the profiler, read in pieces."""
    chance = random.Random(seed)
    text = bytearray((corpus / "traces" / "malformed" / "ok.json").read_bytes())
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text))
        text[at : at + chance.randint(0, 20)] = chance.choice(DAMAGE) * chance.randint(0, 3)
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    assert differences(path, Cutting(chance.randint(64, 3000), chance.randint(1, 3)), USUAL) == []


E = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2}'
AWKWARD = {
    "a key behind a list that is not closed": b'{"traceEvents": [' + E + b', "traceEvents": [' + E + b"]}",
    "a key that begins where a string ends": b'{"traceEvents": [' + E + b', "x"traceEvents": [y", ' + E + b"]}",
    "a list in place of an event": b'{"traceEvents": ["schemaVersion": 1, "traceEvents": [' + E + b", " + E + b"]}",
    "digits behind an event": b'{"traceEvents": [' + E + b".499, " + E + b"]}",
    "no comma": b'{"traceEvents": [' + E + E + b" " + E + b"]}",
    "commas": b'{"traceEvents": [,' + E + b",,\n," + E + b",]}",
    "a comma at the end of the text": b'{"traceEvents": [' + E + b",",
    "events in events": b'{"traceEvents": [' + E[:-1] + b', "args": {"a": [{}, ' + E + b", " + E + b"]}}, " + E + b"]}",
    "an event in a string": b'{"traceEvents": [' + E.replace(b'"a"', b'"},{\\"ph\\":"') + b", " + E + b"]}",
    "keys twice": b'{"traceEvents": [' + E[:-1] + b', "name": null, "ts": 7, "args": 1, "args": {"device": 3}}]}',
    "keys with escapes": b'{"traceEvents": [' + E.replace(b"name", b"n\\u0061me") + b', {"p\\u0068": "X", "ts": 1}]}',
    "truth is no number": b'{"traceEvents": [' + E[:-1] + b', "args": {"correlation": true}}, ' + E + b"]}",
    "times with many digits": b'{"traceEvents": [' + E.replace(b"1.5", b"1712195495519689.0005") + b"," + E + b"]}",
    "times as text": b'{"traceEvents": [' + E.replace(b"1.5", b'"17.00050"') + E.replace(b"1.5", b'" 007"') + b"]}",
    "a very long number": b'{"traceEvents": [' + E.replace(b"1.5", b"1" * 5000) + b"," + E + b"]}",
    "a very long decimal": b'{"traceEvents": [' + E.replace(b"1.5", b"1." + b"1" * 5000) + b"," + E + b"]}",
    "deep lists": b'{"traceEvents": [' + E[:-1] + b', "args": {"grid": ' + b"[" * 80 + b"]" * 80 + b"}}," + E + b"]}",
    "a minus sign alone": b'{"traceEvents": [' + E.replace(b"1.5", b"-") + b"," + E + b"]}",
    "no end of a text": b'{"traceEvents": [' + E + b', {"ph": "X", "name": "' + b"k" * 70_000,
    "a cut character": b'{"traceEvents": [' + E + b', {"ph": "X", "name": "\xe2\x82',
}  # fmt: skip
"""Texts on which readers have differed, or might."""


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_text(differences: Differences, tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(AWKWARD[name])
    assert differences(path, *TINY, *(Cutting(size, 2) for size in range(1, 60, 7)), USUAL) == []


def test_gzip_of_any_damage(corpus: Path, differences: Differences, tmp_path: Path) -> None:
    packed = gzip.compress((corpus / "traces" / "malformed" / "ok.json").read_bytes())
    path = tmp_path / "damaged.json.gz"
    told = {}
    for at in range(12, len(packed), 97):
        for name, damaged in (
            ("cut", packed[:at]),
            ("flipped", packed[:at] + bytes([packed[at] ^ 0x55]) + packed[at + 1 :]),
            ("followed", packed + b"x" * at),
            ("again", packed[:at] + packed),
        ):
            path.write_bytes(damaged)
            if found := differences(path, Cutting(500, 2)):
                told[name, at] = found
    assert told == {}


def test_elements_are_rows_or_counted(corpus: Path) -> None:
    """Elements of the list are rows of some table of the scanner, or handed to Python; none is lost between them."""
    for file in traces(corpus):
        if file.stat().st_size > SMALL:
            continue
        try:
            found = scan(file, Cutting(1000, 2))
        except Unfit:
            continue
        rows = sum(found.columns.rows(table) for table in range(7))
        assert rows + len(found.odd) == found.columns.count
