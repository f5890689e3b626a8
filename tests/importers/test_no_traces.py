"""What is no trace, or is made to fill a memory, is refused soon, with what it is; damage costs no more than events."""

import gzip
import json
import time
from pathlib import Path

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.importing import Sink
from stepscope.core.report import Text
from stepscope.core.wrong_file_type import foreign
from stepscope.importers.kineto import IMPORTER
from stepscope.importers.kineto.json_repair import LEFT_OUT
from stepscope.importers.kineto.source import BAD_CHECKSUM, check_packing
from stepscope.report.assemble import first_screen
from stepscope.storage import open_run

pytestmark = pytest.mark.slow

BEGIN = b'{"schemaVersion": 1, "traceEvents": ['
EVENT = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": %d, "dur": 1}'
PACKED_SPACES = gzip.compress(b" " * (4 << 20), 6)


def test_a_stream_that_unpacks_too_well_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(BEGIN) + PACKED_SPACES * 50)
    with pytest.raises(BadInput, match=r"unpacks to more than 100 times its size|does not end within 64 MB"):
        IMPORTER.read(path, Sink())


def test_what_real_traces_pack_to_is_fine() -> None:
    check_packing(Path("a"), 90 << 30, 1 << 30)
    check_packing(Path("a"), 100 << 20, 1 << 10)
    with pytest.raises(BadInput):
        check_packing(Path("a"), 5 << 30, 22 << 20)


def test_an_event_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(BEGIN + b'{"ph": "X", "name": "' + b"a" * (80 << 20))
    with pytest.raises(BadInput, match="does not end within 64 MB"):
        IMPORTER.read(path, Sink())


def test_a_list_of_other_things_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(BEGIN + b"1,[],2," * 100_000 + b"3]}")
    with pytest.raises(BadInput, match="mostly no events"):
        IMPORTER.read(path, Sink())


def test_repairing_costs_time_in_proportion_to_the_damage(tmp_path: Path) -> None:
    events = [EVENT % (10 * at) for at in range(20_000)]
    broken = [event.replace('"dur": 1', '"dur": 1e1.5') if at % 2 else event for at, event in enumerate(events)]
    path = tmp_path / "a.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": [%s]}' % ",\n".join(broken))  # noqa: UP031
    sink, began = Sink(), time.process_time()
    IMPORTER.read(path, sink)
    taken = time.process_time() - began
    assert sink.skipped[str(path), "event that is not valid JSON: left out"] == 10_000
    assert taken < 20  # 2 s on a machine that does nothing else; it was 60 s


@pytest.mark.parametrize("damage", ['"du{r', '"dur"}', '"dur":x'])
def test_damage_all_over_a_packed_trace_costs_at_most_another_read(tmp_path: Path, damage: str) -> None:
    """One flipped byte is repeated wherever the packing refers back to it: here in one event of twelve."""
    events = [f'{(EVENT % (10 * at))[:-1]}, "args": {{"External id": {at}, "Ev Idx": {at}}}}}' for at in range(60_000)]
    broken = [event.replace('"dur"', damage) if at % 12 == 0 else event for at, event in enumerate(events)]
    clean, _ = cpu_time_of_reading(packed(tmp_path / "clean.json.gz", events))
    damaged, skipped = cpu_time_of_reading(packed(tmp_path / "damaged.json.gz", broken, checksum=1))
    assert set(skipped) > {LEFT_OUT, BAD_CHECKSUM}
    assert skipped[LEFT_OUT] == 5_000
    assert damaged < 3 * clean  # 1.6 on a machine that does nothing else; it was 6


def packed(path: Path, events: list[str], checksum: int = 0) -> Path:
    """A trace of `events`; the bits of `checksum` are flipped in that of gzip."""
    content = bytearray(gzip.compress(BEGIN + ",\n".join(events).encode() + b"]}", 1))
    content[-8] ^= checksum
    path.write_bytes(content)
    return path


def cpu_time_of_reading(path: Path) -> tuple[float, dict[str, int]]:
    """The least of a few times in s, and what was skipped."""
    taken = []
    for _ in range(5):
        sink, began = Sink(), time.process_time()
        IMPORTER.read(path, sink)
        taken.append(time.process_time() - began)
    return min(taken), {reason: count for (_, reason), count in sink.skipped.items()}


@pytest.mark.parametrize(
    ("start", "kind", "command"),
    [
        (b"BZh91AY&SY", "bzip2", "bunzip2 -k"),
        (b"\xfd7zXZ\x00\x00", "xz", "unxz -k"),
        (b"ok.json".ljust(257, b"\0") + b"ustar", "tar archive", "tar -xf"),
    ],
)
def test_other_packings_are_named_with_what_unpacks_them(start: bytes, kind: str, command: str) -> None:
    found = foreign(Path("a"), start)
    assert found is not None
    assert kind in found[0]
    assert f"`{command} a`" in found[1]


def test_a_profile_of_xla_names_only_a_trace_that_is_there(tmp_path: Path) -> None:
    profile = tmp_path / "a.xplane.pb"
    profile.write_bytes(b"\n\x09/host:CPU")
    with pytest.raises(BadInput, match="There is no trace beside it"):
        open_run(profile)
    (tmp_path / "a.trace.json.gz").write_bytes(b"")
    with pytest.raises(BadInput, match=r"report .*a\.trace\.json\.gz"):
        open_run(profile)


def test_a_folder_of_other_files_says_what_they_are(tmp_path: Path) -> None:
    for name in ("a.sqlite", "b.sqlite"):
        (tmp_path / name).write_bytes(b"SQLite format 3\x00" + bytes(100))
    with pytest.raises(BadInput, match=r"it holds an SQLite database, as Nsight Systems exports it \(2 files\)"):
        open_run(tmp_path)


def test_the_first_screen_says_when_all_events_were_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "dur": 1}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event, event]}))
    told = [block.text for block in first_screen(open_run(path)).parts[0].blocks if isinstance(block, Text)]
    assert any(text.startswith("All {} events of the trace are unusable") for text in told)
