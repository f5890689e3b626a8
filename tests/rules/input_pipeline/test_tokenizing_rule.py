"""Which work in a data set, transform or collate function is taken for tokenizing, and how much of it."""

import polars as pl
import pytest

from stepscope.core.run import Run
from stepscope.core.synth import Synth, build
from stepscope.report.diagnose import RULES

from .test_input_rules import Parts, one, rules_of, values


def tokenizing(name: str, stage: str = "transform", *, cpu: float = 35) -> Run:
    parts: Parts = ((stage, name, 35, cpu), ("sample", "data.Texts", 2, 2))
    return Synth().loading(length=20, own=10, workers=2, cores=2, parts=parts, used=2, waited=0.0).run()


@pytest.mark.parametrize(
    ("name", "stage", "rule"),
    [
        ("data.Tokenize", "transform", "python-tokenizing"),
        ("data.WordPieces", "transform", "python-tokenizing"),
        ("data.collate_tokens", "collate", "python-tokenizing"),
        ("data.encode", "transform", "python-tokenizing"),
        ("data.decode", "transform", "slow-transform"),
        ("data.Blur", "transform", "slow-transform"),
        ("transformers.BertTokenizerFast", "transform", "slow-transform"),
        ("data.collate", "collate", "slow-collate"),
    ],
)
def test_who_makes_tokens_in_python_is_told_to_do_it_once(name: str, stage: str, rule: str) -> None:
    assert rules_of(tokenizing(name, stage)) == [rule]


def test_a_tokenizer_that_waits_is_no_python() -> None:
    assert not list(RULES.get("python-tokenizing").check(tokenizing("data.Tokenize", cpu=20)))


def tokens_by_lines(**columns: pl.Expr) -> Run:
    run = build(RULES.get("python-tokenizing").example, fixed=False)
    return Run({**run.tables, "worker_stacks": run.optional("worker_stacks").with_columns(**columns)}, run.path)


def test_lines_tell_what_part_of_a_data_set_makes_tokens() -> None:
    found = one("python-tokenizing", tokens_by_lines())
    assert found.where[0].symbol == "tokenize"
    assert values(found)["tokenizing share"] == pytest.approx(37 / 40, rel=0.1)
    half = pl.when(pl.col("line") < 14).then(pl.col("function")).otherwise(pl.lit("__getitem__"))
    fewer = values(one("python-tokenizing", tokens_by_lines(function=half)))
    share = fewer["tokenizing share"]
    assert share == pytest.approx(0.5 * 39 / 40), "lines tell nothing of serializing"
    fast = pl.lit("transformers/tokenization_utils_fast.py:500 _batch_encode_plus")
    for columns in ({"function": pl.lit("__getitem__")}, {"leaf": fast}):
        assert rules_of(tokens_by_lines(**columns)) == ["slow-transform"]
