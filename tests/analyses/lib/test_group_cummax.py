"""Running maxima within groups."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyses.lib.group_cummax import reached_before

NOTHING = int(np.iinfo(np.int64).min)
ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**63) + 1, 2**63 - 1)), max_size=30)


def test_each_group_starts_afresh() -> None:
    group, end = np.array([0, 0, 0, 3, 3]), np.array([9, 4, 12, 5, 7])
    assert reached_before(group, end).tolist() == [NOTHING, 9, 9, NOTHING, 5]


@given(ROWS)
def test_it_is_what_a_loop_finds_for_any_times(rows: list[tuple[int, int]]) -> None:
    rows.sort(key=lambda row: row[0])
    expected = [
        max((end for other, end in rows[:place] if other == group), default=NOTHING)
        for place, (group, _) in enumerate(rows)
    ]
    group, end = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    assert reached_before(group, end).tolist() == expected
