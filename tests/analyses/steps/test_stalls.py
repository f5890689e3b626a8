"""The analysis `stalls`: long steps at a distance, and the line that makes them long."""

import polars as pl
import pytest

from stepscope.analyses.steps.lib.stall_groups import stall_groups
from stepscope.analyses.steps.stalls import stalls
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.format import title_text
from stepscope.report.diagnose import diagnose

TRAIN = "/home/me/train.py"
BACKWARD = {"call": "torch/_tensor.py:600 backward", "leaf": "torch/autograd/graph.py:800 run"}
MAIN = f"{TRAIN}:90 <module>"


def job(stall_every: int, *, stall: float = 100, tags: tuple[str, ...] = (), part: str = "other") -> Synth:
    """63 steps of 50 ms, 60 of them steady; each `stall_every`-th is longer by `stall` ms."""
    synth, clock = Synth(), 0.0
    for step in range(63):
        long = step % stall_every == stall_every - 1
        parts = {"forward": 20.0, "backward": 25.0, "optimizer": 5.0}
        if long and part != "other":
            parts[part] += stall
        end = clock + 50 + (stall if long else 0)
        synth.step(step, clock, end, tags=tags if long else (), **parts)  # type: ignore[arg-type]
        synth.sample(
            step, clock, 50, "backward", TRAIN, 40, function="main", frames=[MAIN, f"{TRAIN}:40 main"], **BACKWARD
        )
        clock = end
    return synth


def saved(synth: Synth, stall_every: int, *lines: tuple[int, str], weight: float = 100) -> Synth:
    """Samples of phase other in the long steps; each line is (line, function) below line 44 of main."""
    for step in range(stall_every - 1, 63, stall_every):
        for line, function in lines:
            path = [MAIN, f"{TRAIN}:44 main"] + ([f"{TRAIN}:{line} {function}"] if line != 44 else [])
            synth.sample(
                step, 0, weight / len(lines), "other", TRAIN, line, function=function, frames=path, text="text"
            )
    return synth


def test_a_checkpoint_every_ten_steps() -> None:
    synth = saved(job(10), 10, (44, "main"))
    found = stalls(synth.run()).drop("rank")
    assert found.rows() == [("line", TRAIN, 44, "main", "text", 6, 10.0, True, 150 * MS, 10 * MS, 600 / 3600)]


def test_the_line_inside_a_function_comes_before_its_call() -> None:
    (group,) = stall_groups(saved(job(10), 10, (12, "save")).run())
    assert [(place.line, place.symbol) for place in group.places] == [(12, "save"), (44, "main")]
    (group,) = stall_groups(saved(job(10), 10, (12, "log"), (13, "log"), (14, "log")).run())
    assert [(place.line, place.symbol) for place in group.places] == [(44, "main")], "no line of the three holds it"


def test_the_call_of_a_stall_comes_with_its_source() -> None:
    synth = job(10)
    for step in range(9, 63, 10):
        synth.sample(
            step, 0, 100, "other", "/home/me/io.py", 12, function="keep", text="write(state, path)",
            frames=[MAIN, f"{TRAIN}:44 main", "/home/me/io.py:12 keep"], texts=["main()", "keep(model)", "write(…)"],
        )  # fmt: skip
    (group,) = stall_groups(synth.run())
    assert [(place.line, place.text) for place in group.places] == [(12, "write(…)"), (44, "keep(model)")]


@pytest.mark.parametrize(
    ("call", "leaf"),
    [
        ("torch/serialization.py:900 save", "torch/serialization.py:1100 _save"),
        ("trainer_tools/loop.py:60 finish_epoch", "torch/serialization.py:1100 _save"),
        ("transformers/modeling_utils.py:3000 save_pretrained", "fsspec/local.py:300 write"),
    ],
)
def test_a_checkpoint_behind_a_helper_is_told_by_the_library_call(call: str, leaf: str) -> None:
    synth = job(10)
    for step in range(9, 63, 10):
        synth.sample(
            step, 0, 100, "other", "/home/me/io.py", 12, function="keep", text="write(state, path)", call=call,
            leaf=leaf, frames=[MAIN, f"{TRAIN}:44 main", "/home/me/io.py:12 keep"],
        )  # fmt: skip
    (group,) = stall_groups(synth.run())
    assert group.saves
    (block,) = diagnose(synth.run()).findings
    assert title_text(block.finding.title) == "Saving a checkpoint takes 100 ms every 10 steps (17 % of training)"
    assert "torch.save" in block.finding.advice[0].code


def test_a_checkpoint_of_a_framework_that_calls_the_script_is_told_too() -> None:
    """With Lightning the only line of the user's on the way is `trainer.fit(…)`, in every step."""
    synth, clock, fit = Synth(), 0.0, "lightning/pytorch/trainer/trainer.py:560 fit"
    for step in range(63):
        stall = 100 if step % 10 == 9 else 0
        synth.step(step, clock, clock + 50 + stall, forward=20, backward=25, optimizer=5)
        synth.sample(
            step, clock, 50, "backward", TRAIN, 90, function="main", call=fit, leaf=BACKWARD["leaf"], frames=[MAIN]
        )
        if stall:
            synth.sample(
                step, clock + 50, 100, "other", TRAIN, 90, function="main", call=fit, frames=[MAIN],
                leaf="torch/serialization.py:1100 _save",
            )  # fmt: skip
        clock += 50 + stall
    (group,) = stall_groups(synth.run())
    assert (group.cause, group.places, group.saves) == ("unknown", (), True)
    (block,) = diagnose(synth.run()).findings
    assert title_text(block.finding.title) == "Saving a checkpoint takes 100 ms every 10 steps (17 % of training)"


def test_saving_pictures_is_no_checkpoint() -> None:
    synth = job(10)
    for step in range(9, 63, 10):
        synth.sample(
            step, 0, 100, "other", TRAIN, 44, function="main", text="grid.save(path)", call="PIL/Image.py:2500 save",
            leaf="PIL/ImageFile.py:600 _save", frames=[MAIN, f"{TRAIN}:44 main"],
        )  # fmt: skip
    (block,) = diagnose(synth.run()).findings
    assert title_text(block.finding.title) == "train.py:44 takes 100 ms every 10 steps (17 % of training)"


def test_a_validation_is_named_by_its_tag_and_entered_by_its_call() -> None:
    (group,) = stall_groups(saved(job(20, tags=("evaluation",)), 20, (12, "evaluate")).run())
    assert (group.cause, group.steps, group.distance, group.certain) == ("evaluation", (19, 39, 59), 20.0, True)
    assert [place.line for place in group.places] == [44, 12]


def test_two_stalls_with_their_own_distances_are_told_apart_by_their_lines() -> None:
    synth, clock = Synth(), 0.0
    for step in range(100):
        line = 44 if step % 20 == 19 else 55 if step % 13 == 12 else 0
        end = clock + (150 if line else 50)
        synth.step(step, clock, end, forward=20, backward=25, optimizer=5)
        synth.sample(step, clock, 50, "backward", TRAIN, 40, function="main", **BACKWARD)
        if line:
            synth.sample(step, clock, 100, "other", TRAIN, line, function="main")
        clock = end
    found = stalls(synth.run()).select("line", "long_steps", "distance", "regular")
    assert found.sort("line").rows() == [(44, 5, 20.0, True), (55, 7, 13.0, True)]


def test_missing_samples_leave_the_cause_unknown() -> None:
    (group,) = stall_groups(job(10).run())
    assert (group.cause, group.places, group.certain) == ("unknown", (), True), "the distance alone is certain"


def test_steps_that_were_traced_leave_gaps_in_a_regular_distance() -> None:
    run = saved(job(10), 10, (44, "main")).run()
    traced = pl.when(pl.col("step") == 29).then(pl.lit(["traced"])).otherwise(pl.col("tags"))
    run = Run({**run.tables, "steps": run.tables["steps"].with_columns(traced.alias("tags"))})
    assert stalls(run).select("long_steps", "regular").rows() == [(5, True)]


@pytest.mark.parametrize("part", ["backward"])
def test_a_long_backward_is_waiting_for_other_ranks_and_no_stall(part: str) -> None:
    assert stalls(job(10, part=part).run()).is_empty()


def test_a_stall_in_forward_is_found_too() -> None:
    assert stalls(job(10, part="forward").run()).select("long_steps", "regular").rows() == [(6, True)]


def test_steps_that_are_long_by_chance_are_not_regular() -> None:
    synth, clock = Synth(), 0.0
    for step in range(100):
        end = clock + (150 if step in (7, 9, 30, 31, 58, 93) else 50)
        synth.step(step, clock, end, forward=20, backward=25, optimizer=5)
        clock = end
    (group,) = stall_groups(synth.run())
    assert not group.regular
    assert not group.certain


def test_every_second_step_is_work_and_no_stall() -> None:
    assert stalls(job(2).run()).is_empty()


def test_without_steps_says_so() -> None:
    with pytest.raises(MissingData):
        stalls(Synth().run())
