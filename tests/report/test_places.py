"""The source around the places of findings."""

from stepscope.core.finding import Finding, Place, Title
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.report.places import with_source

FILE = "/home/me/train.py"


def run_with(*lines: int, file: str = FILE) -> Run:
    synth = Synth()
    for line in lines:
        synth.add("sources", file=file, line=line, text=f"    line {line}")
    return synth.run()


def place(run: Run, **given: object) -> Place:
    where = (Place(**{"file": FILE, "line": 10, **given}),)  # type: ignore[arg-type]
    finding = Finding(
        title=Title("A problem"), cause="model", evidence=(), gain=None, advice=(), ranks=(0,), where=where
    )
    (found,) = with_source(run, finding).where
    return found


def test_two_lines_before_and_after_come_with_a_place_as_they_were_written() -> None:
    found = place(run_with(*range(5, 20)))
    assert (found.first, found.around) == (8, tuple(f"    line {line}" for line in range(8, 13)))
    assert found.text == "line 10"


def test_lines_that_were_not_kept_end_it() -> None:
    found = place(run_with(7, 9, 10, 12), text="as sampled")
    assert (found.first, found.around, found.text) == (9, ("    line 9", "    line 10"), "as sampled")
    assert place(run_with(9, 11)).around == ()
    assert place(Synth().run()).around == ()


def test_a_trace_cuts_the_front_of_a_path_off() -> None:
    run = run_with(10)
    assert place(run, file="me/train.py").around == place(run, file="train.py").around == ("    line 10",)
    assert place(run, file="them/train.py").around == place(run, file="rain.py").around == ()
