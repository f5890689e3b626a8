"""A report that was made before is found again until anything changes that it was made from."""

import json
import os
from pathlib import Path
from threading import Thread

import pytest

from stepscope.cli import _report_cache
from stepscope.cli._opening import Opening
from stepscope.cli._report_cache import Later, first_of, forget_reports, keep_report, kept_report, place_of
from stepscope.cli._view_reading import ReadForPage
from stepscope.cli.report import COMMAND as report
from stepscope.core.cache_folder import VARIABLE
from stepscope.render.json import dumps, report_document
from stepscope.report.assemble import first_view
from stepscope.storage import open_run

from ..importers.run_files import step, write_process, write_run


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    path = tmp_path / "trace.json"
    path.write_text("{} {}")
    monkeypatch.setattr(_report_cache, "_FRESH", -1e9)
    return path


def test_what_is_kept_is_found_again(trace: Path) -> None:
    place = place_of([str(trace)])
    assert kept_report(place) is None
    keep_report(place, '{"verdict": "slow"}')
    assert kept_report(place_of([str(trace)])) == {"verdict": "slow"}


def test_another_content_another_time_or_another_program_is_another_report(
    trace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = [place_of([str(trace)])]
    os.utime(trace, ns=(1, 1))
    places.append(place_of([str(trace)]))
    trace.write_text("{} {} {}")
    places.append(place_of([str(trace)]))
    monkeypatch.syspath_prepend(tmp_path)
    places.append(place_of([str(trace)]))
    monkeypatch.setattr(_report_cache, "_sources", lambda: [(str(tmp_path), "trace.json")])
    places.append(place_of([str(trace)]))
    assert None not in places
    assert len(set(places)) == 5


def test_of_a_run_that_has_ended_the_report_is_kept(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trace.parent / "run"
    (run / "rank-00000.pid-1").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    assert place_of([str(run)]) is None
    (run / "end.json").write_text("{}")
    places = [place_of([str(run)])]
    steps = run / "rank-00000.pid-1" / "steps.bin"
    for content in ("a", "bc"):
        steps.write_text(content)
        places.append(place_of([str(run)]))
    steps.rename(steps.with_suffix(".old"))
    places.append(place_of([str(run)]))
    assert None not in places
    assert len(set(places)) == 4
    monkeypatch.setattr(_report_cache, "MOST_FILES", 2)
    assert place_of([str(run)]) is None


def test_of_other_folders_nothing_is_kept(trace: Path) -> None:
    assert place_of([str(trace.parent)]) is None
    assert place_of([]) is None
    assert place_of([str(trace), str(trace.parent / "gone.json")]) is None


def test_a_trace_that_was_written_just_now_is_read_each_time(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report_cache, "_FRESH", 1e9)
    assert place_of([str(trace)]) is None
    assert place_of([str(trace)], just_ended=True) is not None


def test_a_report_on_a_terminal_keeps_what_the_page_shows_first(trace: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    write_process(run, *(step(number, 100 * number, 100 * number + 90) for number in range(20)))
    place = place_of([str(run)])
    report.main([str(run), "--no-cache"], standalone_mode=False)
    assert kept_report(first_of(place)) is None
    report.main([str(run)], standalone_mode=False)
    first = kept_report(first_of(place))
    assert kept_report(place) is None
    assert first == json.loads(dumps(report_document(first_view(open_run(run)))))
    reading = ReadForPage([str(run)], Opening(jobs=None, dask=None, no_cache=False))
    first_asked = reading.opened().first
    reading.read()
    assert first_asked is not None
    assert first_asked()[1]
    assert kept_report(place) is not None


def test_a_damaged_report_is_made_anew(trace: Path) -> None:
    place = place_of([str(trace)])
    keep_report(place, '{"verdict": "' + "slow" * 100 + '"}')
    assert place
    whole = place.read_bytes()
    for damaged in (b"", whole[:-9], whole[:20] + b"\xff" * 9 + whole[29:]):
        place.write_bytes(damaged)
        assert kept_report(place) is None
    assert place.parent.stat().st_mode & 0o077 == 0, "it is nobody else's"


def test_clearing_the_cache_forgets_reports(trace: Path) -> None:
    place = place_of([str(trace)])
    keep_report(place, "{}")
    forget_reports(trace.parent / "cache")
    assert kept_report(place) is None


def test_a_damaged_file_and_a_folder_that_cannot_be_written_are_as_if_there_was_none(trace: Path) -> None:
    place = place_of([str(trace)])
    assert place
    place.parent.parent.mkdir()
    place.parent.write_text("a file where the folder should be")
    keep_report(place, "{}")
    assert kept_report(place) is None
    place.parent.unlink()
    keep_report(place, "{}")
    place.write_bytes(place.read_bytes()[:-5])
    assert kept_report(place) is None


def test_the_reports_that_nobody_asked_for_the_longest_go(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_report_cache, "MOST_REPORTS", 2)
    place = place_of([str(trace)])
    assert place
    for number in range(3):
        keep_report(place.with_name(f"{number}.json.gz"), "{}")
        os.utime(place.with_name(f"{number}.json.gz"), (number, number))
    keep_report(place, "{}")
    assert {path.name for path in place.parent.iterdir()} == {place.name, "2.json.gz"}


def test_what_is_made_later_is_made_once() -> None:
    made: list[int] = []
    later = Later(lambda: made.append(1))
    threads = [Thread(target=later) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
