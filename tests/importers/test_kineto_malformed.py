"""Every damaged trace of the corpus: what is read, what is counted, or which message refuses it."""

import pickle
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.importers.kineto.json_repair import NotJson
from stepscope.storage import open_run

NOT_STRICT = "not strictly valid JSON (…): read by a tolerant reader"
REPAIRED = "event that was not valid JSON: repaired"
TRUNCATED = "the file is truncated: everything before the cut was read"
INCOMPLETE = "incomplete event at the cut: left out"
NO_LENGTH = "event without a usable duration: left out"
FAR = "event more than a day away from the rest of the trace: left out"
SECOND = "another JSON document follows the first one: only the first was read"


@dataclass(frozen=True)
class Reads:
    """The file is read: its events, its host and device rows, and what the user is told, with counts.

    `like_ok`: host and device rows have exactly the times of ok.json.
    """

    events: int = 32
    host: int = 24
    device: int = 2
    told: dict[str, int] = field(default_factory=dict)
    like_ok: bool = True


@dataclass(frozen=True)
class Refused:
    """The file is refused with a message that matches."""

    match: str


EXPECTED: dict[str, Reads | Refused] = {
    "ok.json": Reads(),
    "truncated.json": Reads(31, 23, 1, {NOT_STRICT: 1, TRUNCATED: 1, INCOMPLETE: 1}, like_ok=False),
    "truncated_after_event.json": Reads(30, 23, 1, {NOT_STRICT: 1, TRUNCATED: 1}, like_ok=False),
    "truncated.json.gz": Reads(
        21, 14, 0, {"the gzip stream ends too early: what could be unpacked was read": 1, NOT_STRICT: 1, TRUNCATED: 1,
                    INCOMPLETE: 1}, like_ok=False,
    ),
    "bad_crc.json.gz": Reads(told={"the gzip checksum is wrong: contents may be damaged": 1}),
    "not_gzip.json.gz": Reads(),
    "gzip_without_suffix.json": Reads(),
    "empty.json": Refused("the file is empty"),
    "whitespace.json": Refused("white space only, no JSON value"),
    "empty_list.json": Reads(0, 0, 0, like_ok=False),
    "empty_object.json": Refused("no traceEvents key.*keys found: none"),
    "no_traceEvents.json": Refused("no traceEvents key.*keys found: schemaVersion, deviceProperties"),
    "traceEvents_null.json": Refused("traceEvents is a JSON null, not a list"),
    "traceEvents_object.json": Refused("traceEvents is a JSON object, not a list"),
    "zero_events.json": Reads(0, 0, 0, like_ok=False),
    "metadata_only.json": Reads(6, 0, 0, like_ok=False),
    "backslashes.json": Reads(told={"header that was not valid JSON: repaired": 1, NOT_STRICT: 1}),
    "unescaped_quotes.json": Reads(
        32, 24, 1, {"event that is not valid JSON: left out": 1, NOT_STRICT: 1}, like_ok=False
    ),
    "control_characters.json": Reads(told={NOT_STRICT: 1}),
    "nan_infinity.json": Reads(
        32, 24, 1, {"NaN or Infinity as a number: read as missing": 2, NO_LENGTH: 1}, like_ok=False
    ),
    "bare_na.json": Reads(told={REPAIRED: 1, NOT_STRICT: 1}),
    "inf_string.json": Reads(
        told={"argument 'blocks per SM' that is not a number: read as missing": 1,
              "argument 'memory bandwidth (GB/s)' that is not a number: read as missing": 1},
    ),
    "negative_dur.json": Reads(told={"event with a negative duration: kept without length": 1}, like_ok=False),
    "minus_one_dur.json": Reads(
        told={"event that never finished (duration -1): kept without length": 1}, like_ok=False
    ),
    "missing_dur.json": Reads(32, 24, 1, {NO_LENGTH: 1}, like_ok=False),
    "missing_ts.json": Reads(32, 24, 1, {"event without a usable time: left out": 1}, like_ok=False),
    "missing_cat.json": Reads(32, 25, 1, like_ok=False),
    "missing_name.json": Reads(told={"event without a name: shown as (no name)": 1}),
    "missing_ph.json": Reads(32, 24, 1, {"event without a phase: left out": 1}, like_ok=False),
    "missing_args.json": Reads(),
    "args_null.json": Reads(),
    "args_wrong_types.json": Reads(told={"argument 'device' that is not a number: the pid was taken": 1}),
    "ts_strings.json": Reads(),
    "pid_tid_strings.json": Reads(),
    "trailing_empty_event.json": Reads(33, 24, 2, {"empty event: left out": 1}),
    "non_object_events.json": Reads(36, 24, 2, {"element that is not an event: left out": 4}),
    "huge_ts.json": Reads(33, 24, 2, {FAR: 1}),
    "zero_ts.json": Reads(33, 24, 2, {FAR: 1}),
    "int_min_end.json": Reads(
        told={"event that ends more than a day after the rest of the trace: kept without length": 1}, like_ok=False
    ),
    "record_window_end_far.json": Reads(34, 24, 2, {FAR: 1}),
    "scientific_ts.json": Reads(),
    "many_digits.json": Reads(),
    "duplicated_steps_gpu.json": Reads(34, 24, 4, like_ok=False),
    "duplicate_events.json": Reads(33, 24, 3, like_ok=False),
    "unsorted.json": Reads(),
    "partial_overlap.json": Reads(33, 25, 2, like_ok=False),
    "unknown_phases.json": Reads(
        36, 24, 2, {f"event of phase {phase!r}, which is not read: left out": count
                    for phase, count in (("Q", 1), ("B", 2), ("E", 1))},
    ),
    "non_utf8.json": Reads(told={"bytes that are not UTF-8: shown as replacement characters": 2}),
    "lone_surrogate.json": Reads(told={"half of a surrogate pair in a name: shown as replacement character": 1}),
    "nul_in_name.json": Reads(),
    "html_in_name.json": Reads(),
    "terminal_escape_in_name.json": Reads(),
    "long_name.json": Reads(),
    "bom.json": Reads(),
    "utf16.json": Reads(),
    "crlf.json": Reads(),
    "one_line.json": Reads(),
    "top_level_list.json": Reads(),
    "top_level_list_open.json": Reads(told={TRUNCATED: 1, NOT_STRICT: 1}),
    "trailing_comma.json": Reads(told={NOT_STRICT: 1}),
    "two_documents.json": Reads(told={SECOND: 1}),
    "trailing_garbage.json": Reads(told={"bytes after the end of the JSON document: not read": 7, NOT_STRICT: 1}),
    "json_lines.json": Refused("more than one JSON document"),
    "deep_nesting.json": Reads(
        32, 24, 1, {"event that is nested too deeply: left out": 1, NOT_STRICT: 1}, like_ok=False
    ),
    "duplicate_keys.json": Reads(told={"the key traceEvents occurs more than once: the last list was read": 1}),
    "distributed_info_after_events.json": Reads(),
    "bad_distributed_info.json": Reads(),
    "not_json.json": Refused("not JSON: it begins with '<html>"),
    "binary.json": Refused("not JSON"),
    "number.json": Refused("the top level is neither an object nor a list but a JSON number"),
    "wrong_kind_et.json": Refused("an execution trace.*not a profiler trace"),
    "directory.json": Refused("the folder is empty|a folder without a run and without traces"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_damaged_trace(corpus: Path, name: str) -> None:
    path, expected = corpus / "traces" / "malformed" / name, EXPECTED[name]
    if isinstance(expected, Refused):
        with pytest.raises(BadInput, match=expected.match) as caught:
            open_run(path)
        assert name in str(caught.value)
        assert "`stepscope" in caught.value.next_step
        return
    run = open_run(path)
    meta = dict(run.optional("meta").select("key", "value").rows())
    assert {_general(reason): count for reason, count in run.optional("skipped").select("reason", "count").rows()} == (
        expected.told
    )
    assert int(meta["events"]) == expected.events
    assert (len(run.optional("host")), len(run.optional("device"))) == (expected.host, expected.device)
    if expected.like_ok:
        assert _times(run) == _times(open_run(corpus / "traces" / "malformed" / "ok.json"))
    _check_axis(run)
    for table in run.tables.values():  # every name can be written
        table.write_ipc(None)


def test_every_damaged_file_is_expected(corpus: Path) -> None:
    assert {path.name for path in (corpus / "traces" / "malformed").iterdir()} == set(EXPECTED)


def test_distributed_info_after_the_events(corpus: Path) -> None:
    assert _process(corpus, "distributed_info_after_events.json") == (3, "trace", 8)


def test_rank_of_minus_one_is_unknown(corpus: Path) -> None:
    assert _process(corpus, "bad_distributed_info.json") == (0, "assumed", None)


def test_device_and_stream_fall_back_to_pid_and_tid(corpus: Path) -> None:
    device = _run(corpus, "missing_args.json").optional("device")
    assert device.select("device", "stream", "correlation").rows() == [(0, "7", None), (0, "7", None)]
    device = _run(corpus, "args_wrong_types.json").optional("device")
    assert device.select("device", "stream", "correlation", "grid").rows() == [
        (0, "7", 101, "[1,1,1]"),
        (0, "7", 102, "1,1,1"),
    ]


def test_copy_of_a_step_on_the_device_is_an_annotation(corpus: Path) -> None:
    run = _run(corpus, "duplicated_steps_gpu.json")
    steps = pl.col("name").str.starts_with("ProfilerStep#")
    assert run.optional("host").filter(steps)["kind"].to_list() == ["annotation", "annotation"]
    assert run.optional("device").filter(steps)["kind"].to_list() == ["annotation", "annotation"]


NAMES = {
    "control_characters.json": "void\x01\x1f\tge\nmm_kernel<float>(float*)",
    "html_in_name.json": "<script>alert(1)</script><img src=x onerror=alert(1)> gemm_kernel<float>(float*)",
    "terminal_escape_in_name.json": "\x1b[2J\x1b]0;title\x07 gemm_kernel<float>(float*)",
    "nul_in_name.json": "void \x00gemm_kernel<float>(float*)",
    "lone_surrogate.json": "void \ufffdgemm_kernel<float>(float*)",
    "non_utf8.json": "void g\ufffdmm\ufffd_kernel<float>(float*)",
    "long_name.json": "k" * 200_000 + "_kernel<float>(float*)",
    "missing_name.json": "(no name)",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_data(corpus: Path, name: str) -> None:
    assert NAMES[name] in _run(corpus, name).optional("device")["name"].to_list()


def test_unfinished_and_endless_events_have_no_length(corpus: Path) -> None:
    for file, table in (
        ("int_min_end.json", "device"),
        ("negative_dur.json", "device"),
        ("minus_one_dur.json", "host"),
    ):
        rows = _run(corpus, file).optional(table)
        assert len(rows.filter(pl.col("start") == pl.col("end"))) == 1, file


def _run(corpus: Path, name: str) -> Run:
    return open_run(corpus / "traces" / "malformed" / name)


def _process(corpus: Path, name: str) -> tuple[object, ...]:
    return _run(corpus, name).optional("processes").select("rank", "rank_source", "world_size").row(0)


def _general(reason: str) -> str:
    """A reason without the place at which strict reading stopped."""
    return NOT_STRICT if reason.startswith("not strictly valid JSON (") else reason


def _times(run: Run) -> list[tuple[object, ...]]:
    base = int(dict(run.optional("meta").select("key", "value").rows()).get("baseTimeNanoseconds", 0))
    return sorted(
        (table, start - base, end - base)
        for table in ("host", "device")
        for start, end in run.optional(table).select("start", "end").rows()
    )


def _check_axis(run: Run) -> None:
    """The whole run lasts less than a second, as it did."""
    times = [
        value
        for table in ("host", "device", "instants")
        for column in ("start", "end", "time")
        if column in run.optional(table).columns
        for value in run.optional(table)[column].to_list()
    ]
    assert not times or max(times) - min(times) < 10**9


def test_what_is_no_json_is_told_by_a_worker_too() -> None:
    error = pickle.loads(pickle.dumps(NotJson("not JSON: it begins with 'about'", 3)))
    assert (str(error), error.position) == ("not JSON: it begins with 'about'", 3)
