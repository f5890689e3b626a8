"""Findings about a loader's settings name the line that makes the loader."""

from dataclasses import replace

import polars as pl
import pytest

from stepscope.analyses.input_pipeline.lib.loader_facts import MAKES_LOADER
from stepscope.core.finding import Place
from stepscope.core.report import FindingBlock
from stepscope.core.run import Run
from stepscope.core.synth import Synth, build
from stepscope.report.diagnose import RULES, _once_per_place

LINE = Place(file="/home/me/train.py", line=61, symbol=MAKES_LOADER)


def with_line(run: Run) -> Run:
    made = {"made_file": pl.lit(LINE.file), "made_line": pl.lit(LINE.line, pl.Int64)}
    loaders = run.optional("loaders")
    if loaders.is_empty():
        known = {"rank": 0, "pid": "1", "loader": 0, "train": True, "num_workers": 2}
        loaders = pl.DataFrame({**dict.fromkeys(loaders.columns), **known}, schema=loaders.schema)
    return Run({**run.tables, "loaders": loaders.with_columns(**made)}, run.path)


@pytest.mark.parametrize("name", ["few-workers", "too-many-workers", "worker-restarts", "pageable-copy"])
def test_a_finding_about_settings_names_the_line_that_makes_the_loader(name: str) -> None:
    rule = RULES.get(name)
    (finding,) = rule.check(with_line(build(rule.example, fixed=False)))
    assert finding.where[0] == LINE
    (unknown,) = rule.check(build(rule.example, fixed=False))
    assert unknown.where == ()


def test_several_settings_of_one_line_are_several_findings() -> None:
    (finding,) = RULES.get("few-workers").check(with_line(build(RULES.get("few-workers").example, fixed=False)))
    blocks = [FindingBlock("few-workers", finding), FindingBlock("worker-restarts", finding)]
    assert _once_per_place(blocks) == blocks
    elsewhere = replace(finding, where=(replace(LINE, symbol="main"),))
    same = [FindingBlock(block.rule, elsewhere) for block in blocks]
    assert _once_per_place(same) == same[:1]


def test_a_line_that_contains_the_training_loop_is_none_to_make_cheaper() -> None:
    """Lightning loads and trains below one line of the script; the data set's own line is the one to change."""
    script, pictures = "/home/me/train.py:40 main", "/home/me/pictures.py:30 __getitem__"
    for inner, told in (
        ([script, pictures], "line cheaper (pictures.py:30)"),
        ([script], "loads cheaper (train.py:40)"),
    ):
        synth = Synth()
        for step in range(20):
            synth.step(step, 100 * step, 100 * step + 100, data_wait=30, forward=30, backward=35, optimizer=5)
            for phase, weight, frames in (
                ("data_wait", 30, inner),
                ("forward", 30, [script]),
                ("backward", 40, [script]),
            ):
                file, line = frames[-1].split(" ")[0].split(":")
                synth.sample(
                    step, 100 * step, weight, phase, file, int(line), function=frames[-1].split(" ")[1], frames=frames,
                    text="load", call="torch/nn/modules/linear.py:125 forward",
                )  # fmt: skip
        (finding,) = RULES.get("input-bound").check(synth.run())
        assert any(told in advice.text for advice in finding.advice), [advice.text for advice in finding.advice]
