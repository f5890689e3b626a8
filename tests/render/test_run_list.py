"""The list of runs as a table."""

from typing import Any

from stepscope.render.run_list import ListedRun, run_list_document, run_list_table, with_changes

MS = 1_000_000


def run(name: str, started: int, step: int | None, command: str = "train.py") -> ListedRun:
    return ListedRun(
        name=name, path=f"runs/{name}", command=("python", command), started=started, step_ns=step, bound="Input",
        share=0.25, finding="Slow",
    )  # fmt: skip


def test_a_change_is_since_the_run_of_the_same_command_before() -> None:
    runs = with_changes([run("c", 3, 90 * MS), run("a", 1, 100 * MS), run("b", 2, 10 * MS, "other.py")])
    assert [(one.name, one.change and round(one.change, 3)) for one in runs] == [("c", -0.1), ("b", None), ("a", None)]


def test_a_run_that_could_not_be_opened_says_why() -> None:
    broken = ListedRun(name="a", path="runs/a", problem="it is damaged")
    (row,) = run_list_table([broken]).rows
    assert "it is damaged" in row
    runs: Any = run_list_document("runs", [broken])["runs"]
    assert [told["key"] for told in runs] == ["1"]


def test_a_verdict_stands_with_its_share() -> None:
    (row,) = run_list_table([run("a", 1, 100 * MS)]).rows
    assert row[5] == "Input 25 %"
