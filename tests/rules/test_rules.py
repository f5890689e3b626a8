"""One contract for all rules, built-in or installed. A new rule is tested by being there."""

import functools
import re
from collections.abc import Iterable

import polars as pl
import pytest

from stepscope.analyses.input_pipeline.lib.hot_lines import is_definition
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.finding import Finding
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import TABLES
from stepscope.core.synth import MS, Synth
from stepscope.render.format import title_text
from stepscope.report.diagnose import RULES as GROUP
from stepscope.report.diagnose import diagnose
from stepscope.report.places import with_source

from ..examples import example

RULES = GROUP.load()
LONGEST_TITLE = 100  # characters, in a list of findings
HEADINGS = ["What it finds", "Why it costs time", "What to do", "How the gain is predicted", "When it is wrong"]
SOURCES = {*(name.replace("-", "_") for name in PluginGroup("analyses", Analysis).names()), *TABLES}
TIMES = {table: [column.name for column in columns if column.unit == "ns"] for table, columns in TABLES.items()}
MOMENTS = {"start", "end", "time"}

each_rule = pytest.mark.parametrize("name", RULES)


def mean_step(run: Run) -> float:
    return float(steady_steps(run)["duration"].to_numpy().mean())


def findings(name: str, run: Run) -> list[Finding]:
    return list(RULES[name].check(run))


@functools.cache
def problem(name: str) -> list[Finding]:
    """What the rule finds in its own example."""
    return findings(name, example(name, fixed=False))


def changed(run: Run, change: dict[str, pl.Expr]) -> Run:
    """The run with columns replaced wherever they are, by column name."""
    tables = {
        table: frame.with_columns(
            expression.cast(frame.schema[column]).alias(column)
            for column, expression in change.items()
            if column in frame.columns and (column == "rank" or column in TIMES[table])
        )
        for table, frame in run.tables.items()
    }
    return Run(tables, run.path)


def gains(found: Iterable[Finding]) -> list[tuple[int, int]]:
    return [(finding.gain.low_ns, finding.gain.high_ns) for finding in found if finding.gain]


@each_rule
def test_page_has_every_heading(name: str) -> None:
    page = GROUP.page(name)
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    for text in re.split(r"^## .*$", page, flags=re.MULTILINE):
        assert len(text.split()) >= 5, "a heading without a text says nothing"


@each_rule
def test_fires_on_its_problem_and_not_on_the_fix(name: str) -> None:
    assert problem(name), "check() finds nothing in example(synth, fixed=False)"
    assert not findings(name, example(name, fixed=True)), "check() still finds something in example(synth, fixed=True)"


@each_rule
def test_predicted_gain_matches_what_the_fix_saves(name: str) -> None:
    bad, fixed = (example(name, fixed=f) for f in (False, True))
    saved = mean_step(bad) - mean_step(fixed)
    if any(finding.gain and finding.gain.pool == "repeated-steps" for finding in problem(name)):
        saved = mean_step(bad) * (1 - fixed.rows("steps") / bad.rows("steps"))
    predicted = gains(problem(name))
    if not predicted:
        assert not saved, "a fix that saves time has a gain"
        return
    assert any(low <= saved * 1.02 and high >= saved * 0.98 for low, high in predicted), (
        f"the fix saves {saved:.0f} ns of the mean steady step, outside the gain [low_ns, high_ns]: {predicted}"
    )
    assert all(high <= 2 * low + 2 for low, high in predicted), (
        f"a range this wide predicts nothing: high_ns is more than twice low_ns in {predicted}"
    )


@each_rule
def test_is_the_only_rule_to_claim_its_problem(name: str) -> None:
    diagnosis = diagnose(example(name, fixed=False))
    assert [block.rule for block in diagnosis.findings] == [name], "two findings would count one gain twice"


@each_rule
def test_no_other_rule_fires_on_the_fix(name: str) -> None:
    assert not diagnose(example(name, fixed=True)).findings


@each_rule
def test_a_line_that_was_sampled_is_named_instead_of_a_definition(name: str) -> None:
    """Whoever reads the line of a `def` does not know what in it takes the time."""
    run = with_samples(example(name, fixed=False))
    for finding in findings(name, run):
        places = with_source(run, finding).where
        assert not [place for place in places if is_definition(place.text)]


def with_samples(run: Run) -> Run:
    """The run with source and samples of each function that its spans and loaders name, one line below its `def`."""
    spans = run.optional("loader_spans").select("file", "line").drop_nulls()
    sets = run.optional("loaders").select(file="dataset_file", line="dataset_line").drop_nulls()
    synth = Synth()
    for file, line in pl.concat([spans, sets]).unique().sort("file", "line").iter_rows():
        synth.add("sources", file=file, line=line, text="    def __call__(self, sample):")
        synth.add("sources", file=file, line=line + 1, text="        return work(sample)")
        synth.add(
            "worker_stacks", loader=0, worker=0, weight=MS, file=file, line=line + 1, function="__call__",
            frames=[f"{file}:{line + 1} __call__"], text="return work(sample)",
        )  # fmt: skip
    more = synth.run().tables
    names = ("sources", "worker_stacks")
    return Run({**run.tables, **{table: pl.concat([run.optional(table), more[table]]) for table in names}}, run.path)


@each_rule
def test_reports_data_and_not_text(name: str) -> None:
    for finding in problem(name):
        assert finding.evidence
        assert finding.advice
        assert any(advice.code for advice in finding.advice), "advice has code to write"
        assert finding.ranks == (0,)
        assert finding.title.figures, "a title says who, what and how much"
        assert "–" not in title_text(finding.title)
        assert len(title_text(finding.title)) <= LONGEST_TITLE
        assert not re.search(r"\d ?(%|[mnµ]?s\b|[KMGT]i?B)", finding.title.words), "numbers are figures, with a unit"
        assert {evidence.source for evidence in finding.evidence} <= SOURCES, "no table of docs/tables.md"


@each_rule
def test_a_label_is_a_short_noun_phrase(name: str) -> None:
    """At most four words, besides the name of a class or function of the user's; a mean is not said."""
    for finding in problem(name):
        assert finding.evidence
        for evidence in finding.evidence:
            words = evidence.label.removesuffix(" CPU time per batch").split()
            assert len(words) <= (4 if evidence.label == " ".join(words) else 1), (
                f"more than four words: {evidence.label}"
            )
            assert not re.search(r"\b(mean|that|which|it|of the)\b", evidence.label), evidence.label


@each_rule
def test_the_first_figure_is_the_cost_of_this_problem_and_not_that_of_the_general_one(name: str) -> None:
    """A first screen shows three figures; the data wait is the verdict's already."""
    for finding in problem(name):
        first = [evidence.label for evidence in finding.evidence[:3]]
        assert first[0] != "data wait per step" or name == "input-bound", first


@each_rule
def test_shifting_all_times_changes_nothing(name: str) -> None:
    run = example(name, fixed=False)
    later = changed(run, {column: pl.col(column) + 1_700_000_000_000_000_000 for column in MOMENTS})
    assert findings(name, later) == problem(name)


@each_rule
@pytest.mark.parametrize("factor", [2, 10])
def test_scaling_times_scales_the_gain(name: str, factor: int) -> None:
    run = example(name, fixed=False)
    columns = {column for names in TIMES.values() for column in names}
    slower = changed(run, {column: pl.col(column) * factor for column in columns})
    if any(evidence.source == "speed_of_light" for finding in problem(name) for evidence in finding.evidence):
        pytest.skip("a device's peaks do not scale with the times of a run")
    for (low, high), (low_slow, high_slow) in zip(gains(problem(name)), gains(findings(name, slower)), strict=True):
        assert low_slow == pytest.approx(factor * low, abs=2 * factor)
        assert high_slow == pytest.approx(factor * high, abs=2 * factor)


@each_rule
def test_renaming_ranks_renames_ranks(name: str) -> None:
    run = example(name, fixed=False)
    renamed = findings(name, changed(run, {"rank": pl.col("rank") + 3}))
    assert [finding.ranks for finding in renamed] == [(3,)] * len(renamed)
    assert gains(renamed) == gains(problem(name))


@each_rule
def test_order_of_rows_changes_nothing(name: str) -> None:
    run = example(name, fixed=False)
    reversed_rows = Run({table: frame.reverse() for table, frame in run.tables.items()})
    assert findings(name, reversed_rows) == problem(name)
