"""The compiled walk of critical paths gives what the loop in Python gives, on random causes and on those of traces."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyses.critical_path import critical_path
from stepscope.analyses.critical_path.lib.path_walk import NOWHERE, Causes, on_thread, walk
from stepscope.native import _scanner
from stepscope.storage import open_run

from .path_walk_by_loop import step_by_step

Ints = npt.NDArray[np.int64]
TIMES = st.integers(0, 20)


def ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


Asked = tuple[Causes, Ints, Ints, Ints]


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    """Causes of up to three threads and some work, which is held up by threads and by work before it, and paths."""
    threads, works = draw(st.integers(0, 3)), draw(st.integers(0, 8))
    places = [*range(works), *map(on_thread, range(threads))]
    waits = [sorted(draw(st.lists(TIMES, max_size=6))) for _ in range(threads)]
    time = [time for of_thread in waits for time in of_thread]
    start = [draw(TIMES) for _ in range(works)]
    earlier = [[NOWHERE, *(place for place in places if place < work)] for work in range(works)]
    causes = Causes(
        first=np.cumsum([0, *map(len, waits)], dtype=np.int64),
        time=ints(time),
        at=ints([draw(st.integers(0, end)) for end in time]),
        cause=ints([draw(st.sampled_from(places)) for _ in time]),
        start=ints(start),
        held=ints([draw(st.integers(0, begin)) for begin in start]),
        holder=ints([draw(st.sampled_from(offered)) for offered in earlier]),
    )
    paths = draw(st.lists(st.tuples(st.sampled_from(places), TIMES, TIMES), max_size=5)) if places else []
    place, begin, end = (ints([path[column] for path in paths]) for column in range(3))
    return causes, place, begin, end


@given(asked())
def test_compiled_walk_equals_the_loop_in_python(asked: Asked) -> None:
    assert walk(*asked).tolist() == step_by_step(*asked).tolist()


@pytest.mark.parametrize(
    "trace",
    [
        "hta/critical_path/cuda_event_sync_multi_stream",
        "hta/ns_resolution_trace",
        "hta/trace_diff",
        "kineto/samples_old",
        "local/gloo_ddp2/n0_17976.1795174241058565631.pt.trace.json.gz",
        "param/linear_kineto.json.gz",
        "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    ],
)
def test_compiled_walk_of_a_trace(corpus: Path, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def both(*asked: Ints) -> Ints:
        found.append((walk(*asked), step_by_step(*asked)))  # type: ignore[arg-type]
        return found[-1][0]

    monkeypatch.setattr(critical_path, "walk", both)
    critical_path.critical_path(open_run(corpus / "traces" / trace))
    ((one, other),) = found
    assert one.size
    assert np.array_equal(one, other)


def test_a_place_that_is_none_is_refused() -> None:
    nothing, start = ints([]), ints([0])
    for place in (-2, -1, 1):
        with pytest.raises(ValueError, match="no such place"):
            _scanner.walk(start, nothing, nothing, nothing, start, start, start, ints([place]), start, start)
