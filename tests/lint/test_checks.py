"""Every static check finds its own example at one line, and nothing in its fix or in healthy programs."""

import ast
import re
from pathlib import Path

import pytest

from stepscope.lint.check import CHECKS, hits
from stepscope.lint.script import parsed

ROOT = Path(__file__).parents[2]
NAMES = CHECKS.names()


@pytest.mark.parametrize("name", NAMES)
def test_a_check_finds_its_example_and_not_its_fix(name: str) -> None:
    check = CHECKS.get(name)
    assert [found for found, _ in hits(parsed("train.py", check.example))] == [name]
    assert hits(parsed("train.py", check.fixed)) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_check_says_what_and_what_to_write(name: str) -> None:
    ((_, hit),) = hits(parsed("train.py", CHECKS.get(name).example))
    assert hit.what and hit.fix and hit.line >= 1 and hit.column >= 1
    assert re.match(r"[A-Z`].+\.\n\n\S", CHECKS.page(name)), "a page is a sentence, then why"


def test_a_line_may_be_ignored() -> None:
    text = "optimizer.zero_grad(set_to_none=False)  # stepscope: ignore{}\n"
    assert hits(parsed("a.py", text.format(""))) == []
    assert hits(parsed("a.py", text.format("[gradients-zeroed]"))) == []
    assert len(hits(parsed("a.py", text.format("[other]")))) == 1


@pytest.mark.parametrize(
    "script", ["healthy.py", "healthy_gpt.py", "healthy_rnn.py", "parts.py", "input_slow_reads.py"]
)
def test_healthy_programs_are_left_alone(script: str) -> None:
    assert hits(parsed(script, (ROOT / "scenarios" / script).read_text(encoding="utf-8"))) == []


def test_what_stands_below_an_if_may_run_seldom() -> None:
    every = 'for x in loader:\n    loss = model(x.to("cuda"))\n    loss.backward()\n    print(loss)\n'
    seldom = every.replace("    print(loss)", "    if step % 100 == 0:\n        print(loss)")
    assert [hit.line for _, hit in hits(parsed("a.py", every))] == [4]
    assert hits(parsed("a.py", seldom)) == []


def test_a_function_that_is_a_step_counts_as_one() -> None:
    text = 'def training_step(x):\n    loss = model(x.to("cuda"))\n    loss.backward()\n    return loss.item()\n'
    assert [(name, hit.line) for name, hit in hits(parsed("a.py", text))] == [("scalar-reads", 4)]


def test_without_an_accelerator_a_value_costs_nothing() -> None:
    text = "for x in loader:\n    loss = model(x)\n    loss.backward()\n    print(loss.item())\n"
    assert hits(parsed("a.py", text)) == []


def test_a_file_opened_by_its_sample_is_no_repeated_load() -> None:
    text = "class A:\n    def __getitem__(self, i):\n        path = self.paths[i]\n"
    text += "        return np.load(path), torch.load(self.dir / f'{i}')\n"
    assert hits(parsed("a.py", text)) == []


def test_the_examples_are_python() -> None:
    for name, check in CHECKS.load().items():
        assert ast.parse(check.example) and ast.parse(check.fixed), name
