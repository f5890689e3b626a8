"""Search: how often a name occurs, the next and the last occurrence, in the order of time over all tracks."""

import pytest

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.timeline import Ref, find


@pytest.fixture
def run() -> Run:
    synth = Synth().host("aten::mm", "operator", 0, 10).host("aten::MM_out", "operator", 2, 3)
    synth.host("aten::mm", "operator", 20, 30, thread="2").host("aten::add", "operator", 12, 13)
    return synth.kernel(20, 25, "gemm_mm").run()


def test_it_goes_through_all_occurrences_in_time_and_begins_again(run: Run) -> None:
    seen, ref = [], None
    for _ in range(5):
        found = find(run, "mm", ref)
        assert found.total == 4
        assert found.hit is not None
        ref = found.hit
        seen.append((found.position, found.name, ref.track, ref.start // MS))
    assert seen == [
        (1, "aten::mm", "host:0:1:1", 0),
        (2, "aten::MM_out", "host:0:1:1", 2),
        (3, "gemm_mm", "stream:0:0:7", 20),
        (4, "aten::mm", "host:0:1:2", 20),
        (1, "aten::mm", "host:0:1:1", 0),
    ]


def test_backwards_is_the_same_way_back(run: Run) -> None:
    positions, ref = [], None
    for _ in range(5):
        found = find(run, "mm", ref, backwards=True)
        ref = found.hit
        positions.append(found.position)
    assert positions == [4, 3, 2, 1, 4]


def test_it_begins_at_a_moment(run: Run) -> None:
    found = find(run, "mm", at=15 * MS)
    assert (found.position, found.hit) == (3, Ref("stream:0:0:7", 0, 20 * MS))


def test_names_are_counted_the_most_frequent_first(run: Run) -> None:
    found = find(run, "aten")
    assert (found.total, found.distinct) == (4, 3)
    assert found.names == (("aten::mm", 2), ("aten::MM_out", 1), ("aten::add", 1))


def test_what_is_not_there_is_said(run: Run) -> None:
    found = find(run, "conv")
    assert (found.total, found.hit, found.names) == (0, None, ())
