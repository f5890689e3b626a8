"""Where steps lie in the timeline."""

import pytest

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.timeline import step_window


@pytest.fixture
def run() -> Run:
    synth = Synth()
    for number, (start, end) in enumerate([(10, 90), (90, 120), (120, 155), (155, 200)]):
        synth.step(number + 5, start, end)
    return synth.step(5, 40, 60, rank=1).run()


@pytest.mark.parametrize(
    ("numbers", "rank", "window"),
    [
        ((6, 6), None, (80, 110)),
        ((6, 7), 0, (80, 145)),
        ((5, 5), 1, (30, 50)),
        (None, None, (110, 145)),  # 35 ms: of the inner steps the nearest to the mean of 47.5
        ((6, 6), 1, None),
        ((99, 99), None, None),
        ((5, 5), 7, None),
    ],
)
def test_steps_count_from_the_first_moment(
    run: Run, numbers: tuple[int, int] | None, rank: int | None, window: tuple[int, int] | None
) -> None:
    assert step_window(run, numbers, rank) == (window and (window[0] * MS, window[1] * MS))


def test_a_run_without_steps_has_none() -> None:
    assert step_window(Synth().kernel(0, 10).run(), None) is None
