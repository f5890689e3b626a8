"""Lines of DataLoader workers by time."""

import pytest

from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth


def add(synth: Synth, line: int, weight: int, worker: int, **columns: object) -> None:
    synth.add(
        "worker_stacks", pid=str(worker), worker=worker, time=MS, weight=weight * MS, file="/d/a.py",
        line=line, **{"loader": 0, "function": "f", "text": "x", "leaf": "/d/a.py:1 f", **columns},
    )  # fmt: skip


def test_times_are_sums_over_the_workers_of_a_loader() -> None:
    synth = Synth()
    add(synth, 3, 50, 0)
    add(synth, 3, 100, 1)
    add(synth, 4, 50, 1, expression="g()")
    add(synth, 9, 70, 0, loader=1)
    rows = loader_lines(synth.run()).select("loader", "line", "samples", "wall", "share", "expression").rows()
    assert rows == [(0, 3, 2, 150 * MS, 0.75, None), (0, 4, 1, 50 * MS, 0.25, "g()"), (1, 9, 1, 70 * MS, 1.0, None)]


def test_without_samples_it_says_how_to_take_them() -> None:
    with pytest.raises(MissingData, match="loader-lines"):
        loader_lines(Synth().run())
