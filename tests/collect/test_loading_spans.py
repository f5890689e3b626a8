"""The file of spans and what decides how often it is written, without a DataLoader."""

import itertools
import json
import multiprocessing.queues
import os
import queue
import struct
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect.dataloader import spans as file_of_spans
from stepscope.collect.dataloader.batch_recorder import BATCH_COST, OWN_NS, PENDING_LIMIT, BatchRecorder
from stepscope.collect.dataloader.fetching import count_fetches, fetch_hook
from stepscope.collect.dataloader.main_process import Maker, Receiver, pin_hook
from stepscope.collect.dataloader.overhead_budget import RESERVE_NS, SHARE, OverheadBudget
from stepscope.collect.dataloader.spans import (  # fmt: skip
    FETCH,
    FILES_LIMIT,
    INDEX_WAIT,
    LIMIT,
    PIN,
    PUT,
    RESERVES_LIMIT,
    SAMPLE,
    SEND,
    SERIALIZE,
    TRANSFORM,
    SpanFile,
    open_spans,
)
from stepscope.collect.dataloader.worker import Feeder, worker_hook
from stepscope.collect.mmap_file import reserves
from stepscope.run_format.records import SPAN

HEADER = struct.Struct("<16sIIqqq16x")


@pytest.fixture
def spans(tmp_path: Path) -> SpanFile:
    if not reserves(str(tmp_path)):
        pytest.skip("needs a file system that reserves blocks")
    return SpanFile(str(tmp_path / "worker-1-2"), {"kind": "worker"})


def rows(spans: SpanFile) -> list[tuple[int, ...]]:
    """The records in the file, as a reader that knows the format finds them."""
    content = Path(spans.path + ".bin").read_bytes()
    magic, header, size, *_ = HEADER.unpack_from(content)
    assert (magic, header, size) == (SPAN.magic, HEADER.size, SPAN.struct.size)
    found = (SPAN.struct.unpack_from(content, at) for at in range(header, len(content) - size + 1, size))
    return [row for row in found if row[-1]]


def stages(spans: SpanFile) -> list[int]:
    return [row[-1] for row in rows(spans)]


def test_a_span_is_in_the_file_at_once(spans: SpanFile) -> None:
    spans.write(FETCH, 10, 20, 15, 3, 1, 2, weight=4, sample=7, name=5, count=32, flags=1)
    assert rows(spans) == [(10, 20, 15, 7, 3, 5, 32, 4, 1, 2, 1, FETCH)]


def test_the_file_grows_and_threads_share_it(spans: SpanFile) -> None:
    def write(batch: int) -> None:
        for number in range(1000):
            spans.write(FETCH, number + 1, 1, 1, batch, 1, 0)

    threads = [threading.Thread(target=write, args=(batch,)) for batch in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = sorted((row[4], row[0]) for row in rows(spans))
    assert written == [(batch, number + 1) for batch in range(4) for number in range(1000)]
    assert os.stat(spans.path + ".bin").st_blocks * 512 >= 4000 * SPAN.struct.size
    assert spans.lost == 0


def test_a_full_file_counts_what_it_loses_and_is_thinned_out_before(spans: SpanFile) -> None:
    assert spans.thinning() == 1
    for number in range(LIMIT // SPAN.struct.size + 5):
        spans.write(FETCH, number + 1, 1, 1, 0, 1, 0)
    assert spans.thinning() == 4**8
    assert os.stat(spans.path + ".bin").st_size <= LIMIT + HEADER.size + (16 << 10)
    assert spans.lost + len(rows(spans)) == LIMIT // SPAN.struct.size + 5


def test_values_that_do_not_fit_are_cut_and_never_raise(spans: SpanFile) -> None:
    spans.write(FETCH, 1, 2, 3, 0, 70_000, 65_536 + 9, weight=100_000)
    assert rows(spans) == [(1, 2, 3, -1, 0, 0, 0, 65_535, 70_000 - 65_536, 9, 0, FETCH)]
    spans.write(FETCH, 1, 2, 3, 1 << 40, 1, 0)
    assert spans.lost == 1


def test_a_forked_child_leaves_the_file_alone(spans: SpanFile) -> None:
    pid = os.fork()
    if not pid:
        spans.abandon()
        spans.write(FETCH, 1, 2, 3, 0, 1, 0)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert rows(spans) == []


def test_a_name_is_told_once(spans: SpanFile) -> None:
    assert [spans.name(key, key, "f.py", 3) for key in ("a", "b", "a")] == [1, 2, 1]
    told = [json.loads(line) for line in Path(spans.path + ".jsonl").read_text().splitlines()]
    assert [row["kind"] for row in told] == [told[0]["kind"], "clock", "name", "name"]
    assert [row["name"] for row in told[2:]] == ["a", "b"]
    assert told[0]["pid"] == os.getpid()


def test_a_run_has_a_limit_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_of_spans, "reserves", lambda folder: True)
    folder = tmp_path / "loading"
    folder.mkdir()
    for number in range(FILES_LIMIT):
        (folder / f"{number}.bin").touch()
    assert open_spans(str(tmp_path), "main", {}) is None


def test_a_disk_that_promises_no_room_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_of_spans, "reserves", lambda folder: False)
    with pytest.raises(OSError, match="promise room"):
        open_spans(str(tmp_path), "main", {})


# -- how often -----------------------------------------------------------------------------------------------------


def recorded(recorder: BatchRecorder, cpu: int, batches: int, own: int = OWN_NS) -> list[tuple[int, int]]:
    """The batches that are recorded when each takes `cpu` ns, with their weights. Recording one costs 8 `own`."""
    found = []
    for batch in range(batches):
        if recorder.enter(batch):
            found.append((batch, recorder.weight()))
            recorder.measured(own)
            recorder.next_due(BATCH_COST, cpu)
    return found


def test_a_long_batch_is_always_recorded(spans: SpanFile) -> None:
    assert recorded(BatchRecorder(spans, 1), 20_000_000, 4) == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_short_batch_is_recorded_so_often_that_it_stays_cheap(spans: SpanFile) -> None:
    found = recorded(BatchRecorder(spans, 1), 500_000, 100)  # 24 µs are 5 % of it
    assert found[:3] == [(0, 1), (31, 31), (63, 32)]
    assert sum(weight for _, weight in found) == found[-1][0] + 1


def test_where_recording_is_slow_it_is_done_more_rarely(spans: SpanFile) -> None:
    found = recorded(BatchRecorder(spans, 1), 10_000_000, 400, own=80_000)  # 640 µs are 6 % of it
    assert [weight for _, weight in found][:3] == [1, 31, 32]


def test_a_process_with_a_reserve_records_its_first_batches_whole(tmp_path: Path, spans: SpanFile) -> None:
    rich = SpanFile(str(tmp_path / "worker-1-3"), {"kind": "worker"}, SHARE, RESERVE_NS)
    weights = [weight for _, weight in recorded(BatchRecorder(rich, 1), 10_000_000, 400, own=80_000)]
    first = weights.count(1)
    assert first == 1 + RESERVE_NS // 620_000  # each is paid 20 µs of its own, and then one is owed for
    assert weights[:first] == [1] * first
    assert weights[first] < 31 < min(weights[first + 1 :]) + 1


def test_the_next_iterator_of_a_process_does_not_begin_from_nothing(spans: SpanFile) -> None:
    """A loop that makes an iterator for each batch records no more than one that keeps its own."""
    found = []
    for number in range(100):
        recorder = Maker(spans, number)
        recorder.loader = number % 2
        recorder.follow()
        found.append([weight for _, weight in recorded(recorder, 500_000, 1)])
        del recorder
    assert [number for number, one in enumerate(found) if one] == [0, 31, 63, 95]
    assert [sum(one) for one in found if one] == [1, 16, 16, 16]  # those of its own loader


def test_few_processes_of_a_run_have_a_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(file_of_spans, "reserves", lambda folder: True)
    monkeypatch.setattr(file_of_spans, "SpanFile", lambda path, about, share, reserve, limit: given.append(reserve))
    for number in range(RESERVES_LIMIT + 1):
        open_spans(str(tmp_path), "main", {})
        (tmp_path / "loading" / f"{number}.bin").touch()
    assert given == [RESERVE_NS] * RESERVES_LIMIT + [0]


def test_times_inside_a_fetch_are_written_when_it_is_over_or_there_are_many(spans: SpanFile) -> None:
    recorder = BatchRecorder(spans, 1)
    recorder.enter(0)
    for number in range(PENDING_LIMIT - 1):
        recorder.sample(number, 7)
    assert rows(spans) == []
    recorder.sample("a key", 7, 3)
    assert len(rows(spans)) == PENDING_LIMIT
    recorder.sample(1 << 70, 7)
    recorder.next_detail_due(1_000_000)
    assert [(row[3], row[4], row[5], row[6], row[7]) for row in rows(spans)[-3:]] == [
        (PENDING_LIMIT - 2, 0, 7, 1, 1), (-1, 0, 7, 3, 1), (-1, 0, 7, 1, 1),
    ]  # fmt: skip
    assert (recorder.pending, {row[-1] for row in rows(spans)}) == ([], {SAMPLE})


class Fetcher:
    """As torch's map-style one."""

    def __init__(self, recorder: BatchRecorder | None, dataset: Any) -> None:
        self.dataset, self.collate_fn, self._stepscope_recorder = dataset, tuple, recorder

    def fetch(self, indices: list[int]) -> Any:
        return self.collate_fn([self.dataset[index] for index in indices])


def test_a_fetch_leaves_the_fetcher_as_it_was(spans: SpanFile) -> None:
    recorder = BatchRecorder(spans, 1)
    fetcher, fetch = Fetcher(recorder, "abcd"), fetch_hook(Fetcher.fetch)
    before = dict(fetcher.__dict__)
    assert fetch(fetcher, [1, 3]) == ("b", "d")
    assert fetcher.__dict__ == before
    recorder.due = 0
    with pytest.raises(IndexError) as raised:
        fetch(fetcher, [9])
    assert fetcher.__dict__ == before
    assert "collate/loading" not in "".join(str(entry.path) for entry in raised.traceback)
    assert [row[-2] for row in rows(spans) if row[-1] == FETCH] == [0, 1]
    assert [row[3] for row in rows(spans) if row[-1] == 3] == [1, 3]


def test_a_failing_recorder_leaves_the_fetch_alone(spans: SpanFile, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = BatchRecorder(spans, 1)
    monkeypatch.setattr(SpanFile, "name", lambda *_: 1 / 0)
    fetcher, fetch = Fetcher(recorder, "abcd"), fetch_hook(Fetcher.fetch)
    for _ in range(3):
        assert fetch(fetcher, [0]) == ("a",)
    assert not recorder.live


# -- the thread that pins ------------------------------------------------------------------------------------------


def test_the_copy_into_pinned_memory_is_between_get_and_put(spans: SpanFile) -> None:
    class Incoming(queue.Queue[Any]):
        _stepscope_recorder = None

    incoming, outgoing = Incoming(), queue.Queue[Any]()
    recorder = incoming._stepscope_recorder = Receiver(spans, 1)  # type: ignore[assignment]
    recorder.stride = 2
    for batch in range(3):
        incoming.put((batch, f"batch {batch}"))
    incoming.put(("a message that is no batch", None))

    def loop(in_queue: Any, out_queue: Any, device: str) -> None:
        """Copies as torch's does."""
        for _ in itertools.repeat(None, 4):
            batch, data = in_queue.get(timeout=5)
            out_queue.put((batch, f"{data} on {device}"), timeout=5)

    pin_hook(loop)(incoming, outgoing, "cuda")
    assert [outgoing.get()[1] for _ in range(3)] == [f"batch {batch} on cuda" for batch in range(3)]
    assert [(row[4], row[7]) for row in rows(spans) if row[-1] == PIN] == [(0, 2), (2, 2)]


def test_a_data_set_that_cannot_be_looked_at_is_fetched_from_as_ever(spans: SpanFile) -> None:
    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

        def __getitem__(self, index: int) -> int:
            return index

    recorder = BatchRecorder(spans, 1)
    fetcher, fetch = Fetcher(recorder, Hostile()), fetch_hook(Fetcher.fetch)
    for _ in range(2):
        recorder.due = 0
        assert fetch(fetcher, [4, 5]) == (4, 5)


def test_batches_that_are_not_due_only_pass_through(spans: SpanFile) -> None:
    recorder, fetcher = BatchRecorder(spans, 1), Fetcher(None, "abcd")
    count_fetches(fetcher, recorder)
    for batch in range(7):
        recorder.due = recorder.due if batch else 0
        assert fetcher.fetch([1]) == ("b",)
        if batch == 0:
            recorder.due = 3  # the recorder wants the fourth next; it is asked after a fetch that it looked at
            count_fetches(fetcher, recorder)
    with pytest.raises(IndexError) as raised:
        fetcher.fetch([9])
    assert "collate/loading" not in "".join(str(entry.path) for entry in raised.traceback)
    recorded = [(row[4], row[7]) for row in rows(spans) if row[-1] == FETCH]
    assert recorded[:2] == [(0, 1), (3, 3)]
    gone = weakref.ref(fetcher)
    del fetcher, raised
    assert gone() is None  # not only when garbage is collected: a data set may hold files


def test_the_feeder_thread_is_timed_while_a_recorded_batch_is_on_its_way(spans: SpanFile) -> None:
    data_queue = multiprocessing.get_context("fork").Queue()
    pickler = multiprocessing.queues._ForkingPickler  # type: ignore[attr-defined]
    recorder = types.SimpleNamespace(weights={}, spans=spans, epoch=2)
    feeder = Feeder(recorder, data_queue)  # type: ignore[arg-type]
    for batch in range(4):
        if batch == 2:
            recorder.weights[batch] = 5
            feeder.expect()
        data_queue.put((batch, b"x" * 1000))
        assert data_queue.get(timeout=30) == (batch, b"x" * 1000)
    data_queue.close()
    data_queue.join_thread()
    assert multiprocessing.queues._ForkingPickler is pickler  # type: ignore[attr-defined]
    assert "_send_bytes" not in vars(data_queue._writer)  # type: ignore[attr-defined]
    assert [(row[-1], row[4], row[7], row[9]) for row in rows(spans)] == [(SERIALIZE, 2, 5, 2), (SEND, 2, 5, 2)]
    assert rows(spans)[1][6] > 1000


# -- the loop of a worker ------------------------------------------------------------------------------------------


def test_the_index_queue_is_timed_around_recorded_batches_only(
    spans: SpanFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tasks:
        def __init__(self) -> None:
            self.count = itertools.count()

        def get(self, timeout: float) -> tuple[int, list[int]]:
            return next(self.count), [0]

    class Kinds:
        @staticmethod
        def create_fetcher(dataset: Any) -> Any:
            return Fetcher(None, dataset)

    class Loading:
        born = 0

        def open(self, role: str, about: dict[str, Any]) -> SpanFile:
            return spans

        def sample_lines(self, recorder: BatchRecorder, within: Any) -> None:
            return None

        def fail(self, error: BaseException) -> None:
            raise error

    timed = []
    pickler = multiprocessing.queues._ForkingPickler  # type: ignore[attr-defined]
    monkeypatch.setattr(multiprocessing.queues, "_ForkingPickler", pickler)

    def loop(dataset: Any, index_queue: Any, data_queue: Any, base_seed: int, worker_id: int, num_workers: int) -> None:
        """Gets and fetches as torch's does, two epochs."""
        for _ in range(2):
            fetcher = Kinds.create_fetcher(dataset)
            for _ in range(20):
                timed.append("get" in vars(index_queue))
                fetcher.fetch(index_queue.get(timeout=5)[1])

    monkeypatch.setattr(OverheadBudget, "wait", lambda budget: 10 if budget._earned else 1)
    data_queue = multiprocessing.get_context("fork").Queue()
    worker_hook(loop, Loading(), Kinds)("ab", Tasks(), data_queue, 1, 0, 1)  # type: ignore[arg-type]
    now = multiprocessing.queues._ForkingPickler  # type: ignore[attr-defined]
    assert now is not pickler  # it waits for batches that never came
    assert [number for number, was in enumerate(timed) if was] == [0, 1, 10, 11, 20, 21, 30, 31]
    for stage in (INDEX_WAIT, FETCH, PUT):
        found = [(row[4], row[7], row[9]) for row in rows(spans) if row[-1] == stage]
        assert found == [(0, 1, 0), (10, 10, 0), (20, 10, 1), (30, 10, 1)]


def test_times_of_watched_batches_are_those_of_others_and_what_waited_waits_as_long(spans: SpanFile) -> None:
    recorder = BatchRecorder(spans, 1)
    for turn in range(20):
        recorder.slowdown.add(80_000_000 + turn, 10, watched=False)
        recorder.slowdown.add(100_000_000 + turn, 10, watched=True)
    recorder.slowed = True
    recorder.pending = [(SAMPLE, 500, 1500, 1000, 7, 3, 1), (TRANSFORM, 1000, 1400, -1, -1, 4, 0)]
    recorder.straighten(500, 2000, 1000)  # half of the fetch is on a core: a fifth of that half is ours
    assert recorder.pending == [(SAMPLE, 500, 1400, 800, 7, 3, 1), (TRANSFORM, 950, 1310, -1, -1, 4, 0)]
    recorder.slowed = False
    recorder.straighten(500, 2000, 1000)
    assert recorder.pending[0] == (SAMPLE, 500, 1400, 800, 7, 3, 1)
