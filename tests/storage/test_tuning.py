"""The folder of a tuning opens as its run of the script as it is, with what the trials measured beside."""

import json
from pathlib import Path

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.report import Table
from stepscope.models.loader_model import LoaderChange
from stepscope.report.sections.input_pipeline.trials import SECTION
from stepscope.run_format.files import TUNING
from stepscope.storage import open_run
from stepscope.storage.listing import runs_in
from stepscope.web.routes.predict import prediction

from ..command import stepscope
from ..export.recorded import recorded


def row(step: float | None, left_out: str | None = None, **setting: object) -> dict[str, object]:
    interval = None if step is None else {"step": step, "low": 0.9 * step, "high": 1.1 * step}
    return {
        "setting": setting, "step_ns": interval, "data_wait_ratio": 0.5, "trials": 1, "steps": 20, "left_out": left_out,
    }  # fmt: skip


TRIED = [
    row(20e6), row(10e6, num_workers=4), row(9e6, num_workers=4, prefetch_factor=4),
    row(None, "the job ended with exit code 1", num_workers=8),
]  # fmt: skip


@pytest.fixture
def tuning(tmp_path: Path) -> Path:
    folder = tmp_path / "tuning"
    folder.mkdir()
    recorded(folder / "01-as-it-is", "fork", trace=False)
    (folder / TUNING).write_text(json.dumps({"base": "01-as-it-is", "tried": TRIED}))
    return folder


def test_it_opens_as_its_first_trial(tuning: Path) -> None:
    assert runs_in(str(tuning)) == []
    run = open_run(str(tuning), use_cache=False)
    assert run.path == str(tuning)
    assert run.rows("steps") > 0
    table, _, failed = SECTION.build(run)
    assert isinstance(table, Table)
    assert [cells[:2] for cells in table.rows] == [
        ("num_workers=4, prefetch_factor=4", 9e6), ("num_workers=4", 10e6), ("as it is", 20e6),
    ]  # fmt: skip
    assert "num_workers=8: the job ended with exit code 1." in str(failed)


def test_its_trials_are_points_of_the_curve(tuning: Path) -> None:
    run = open_run(str(tuning), use_cache=False)
    told = prediction(run, LoaderChange())
    own = told["settings"]["workers"]  # type: ignore[index]
    measured: list[dict[str, object]] = told["measured"]  # type: ignore[assignment]
    assert [(one["workers"], one["step"], one["other"]) for one in measured] == [
        (own, 20e6, False), (4, 10e6, False), (4, 9e6, True),
    ]  # fmt: skip


def test_report_shows_the_trials(tuning: Path) -> None:
    done = stepscope("report", tuning, "--full")
    assert done.returncode == 0, done.stderr
    assert "Measured trials" in done.stdout
    assert stepscope("report", tuning.name, cwd=tuning.parent).stdout.rstrip().endswith(f"stepscope view {tuning.name}")


def test_a_tuning_that_has_not_ended_is_a_list_of_runs(tuning: Path) -> None:
    (tuning / TUNING).unlink()
    assert [run.path.name for run in runs_in(str(tuning))] == ["01-as-it-is"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"base": "01-as-it-is", "tried": [1]}',
        *(f'{{"base": "{base}", "tried": []}}' for base in (".", "..", "/")),
    ],
)
def test_a_damaged_file_is_told(tuning: Path, text: str) -> None:
    (tuning / TUNING).write_text(text)
    with pytest.raises(BadInput, match="is not what `stepscope tune` writes"):
        open_run(str(tuning), use_cache=False)
