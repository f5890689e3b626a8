"""Code in advice can be pasted: Python compiles, a line for the shell can be split into words."""

import importlib
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stepscope.analyses.host.lib.host_lines import HostLines
from stepscope.analyses.input_pipeline.lib.loader_facts import LoaderFacts
from stepscope.core.finding import Advice, Place
from stepscope.core.synth import Synth
from stepscope.models.framework_settings import _SETTINGS, framework_advice
from stepscope.models.input_stall import LoadingStage
from stepscope.report.diagnose import RULES
from stepscope.rules.host import host_bound
from stepscope.rules.input_pipeline import crop_after_transform, input_bound, slow_transform, slow_worker
from stepscope.rules.memory import memory_growth

from ..examples import example

RULES_FOLDER = Path(crop_after_transform.__file__).parents[1]
PACKAGES = {
    path: f"stepscope.rules.{path.parent.name}.{path.stem}" for path in sorted(RULES_FOLDER.glob("*/[a-z]*.py"))
}
MODULES = [*PACKAGES.values(), "stepscope.models.loader_advice", "stepscope.models.framework_settings"]
NAMES = ("data.Blur", "data.<lambda>", "make.<locals>.Crop", "numpy.load", "sample")
PLACE = Place(file="/home/me/data.py", line=12, symbol="Photos")


def check(advice: Advice) -> None:
    if not advice.code:
        return
    if advice.language == "shell":
        assert "\n" not in advice.code
        assert shlex.split(advice.code, comments=True), advice.code
        return
    lines = "".join(f"    {line}\n" for line in advice.code.splitlines())
    compile(f"async def pasted(self):\n{lines}    pass\n", "advice", "exec")


def held(value: object) -> Iterator[Advice]:
    """The advice in a constant of a module, and in the tuples and dicts that it consists of."""
    if isinstance(value, Advice):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from held(one)
    elif isinstance(value, dict):
        yield from held(tuple(value.values()))


def test_what_is_no_python_and_no_line_of_a_shell_is_found() -> None:
    with pytest.raises(SyntaxError):
        check(Advice(text="a name that is none", code="batch = <lambda>(batch)"))
    with pytest.raises(SyntaxError):
        check(Advice(text="a command", code="stepscope show lines RUN"))
    with pytest.raises(ValueError, match="quotation"):
        check(Advice(text="a quote that does not end", code="echo 'a", language="shell"))


@pytest.mark.parametrize("name", RULES.load())
def test_advice_of_each_example(name: str) -> None:
    given = [advice for finding in RULES.get(name).check(example(name))
             for advice in finding.advice]  # fmt: skip
    assert given
    for advice in given:
        check(advice)


@pytest.mark.parametrize("module", [importlib.import_module(name) for name in MODULES], ids=MODULES)
def test_advice_of_each_table(module: ModuleType) -> None:
    for value in vars(module).values():
        for advice in held(value):
            check(advice)


def test_the_tables_are_found() -> None:
    found = [advice for name in MODULES for value in vars(importlib.import_module(name)).values()
             for advice in held(value)]  # fmt: skip
    assert len(found) >= 30
    assert {advice.language for advice in found} == {"python", "shell"}


@pytest.mark.parametrize("purpose", ["checkpoint", "evaluation", "logging"])
@pytest.mark.parametrize("library", ["", *(name for names, _ in _SETTINGS for name in names)])
def test_settings_of_frameworks(library: str, purpose: str) -> None:
    advice = framework_advice(purpose, f"{library}/trainer.py fit" if library else "fit")
    assert bool(advice.code) is bool(library)
    check(advice)


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stage", slow_transform._STAGES)
def test_advice_about_a_slow_part(stage: str, name: str, gpu: bool) -> None:
    part = LoadingStage(stage=stage, name=name, cpu=1.0, idle=0.0, share=0.5, place=PLACE)
    for advice in slow_transform._advice(part, gpu=gpu):
        check(advice)


@pytest.mark.parametrize("name", NAMES)
def test_advice_about_a_late_crop(name: str) -> None:
    part = LoadingStage(stage="transform", name=name, cpu=1.0, idle=0.0, share=0.5, place=PLACE)
    crop = crop_after_transform._Crop(name="part.<lambda>", left=0.1, before=(part,), order=(name, "part.<lambda>"))
    for advice in crop_after_transform._advice(crop):
        check(advice)


@pytest.mark.parametrize("cpu", [10.0, 100.0])
def test_advice_about_a_slow_worker(cpu: float) -> None:
    for advice in slow_worker._advice(slow_worker._Slow(worker=1, wall=100, cpu=cpu, others_wall=10, others_cpu=10)):
        check(advice)


@pytest.mark.parametrize("where", [(), (PLACE,)])
def test_advice_about_growing_memory(where: tuple[Place, ...]) -> None:
    for advice in memory_growth._advice(where):
        check(advice)


def lines(text: str, **columns: Any) -> HostLines:
    place = Place(file="/home/me/train.py", line=5, text=text)
    group = HostLines(
        rank=0, phases=("other",), time=1.0, low=0.5, high=2.0, samples=9, places=(place,), saves=None, purpose=None,
        inside="", holds_loop=False,
    )  # fmt: skip
    return replace(group, **columns)


CASES: dict[str, Callable[[], HostLines]] = {
    "loop": lambda: lines("trainer.train()", holds_loop=True, inside="fit"),
    "forward": lambda: lines("x = f(x)", phases=("forward",)),
    "checkpoint": lambda: lines("torch.save(model)", saves=True),
    "log": lambda: lines("log.flush()"),
    "other": lambda: lines("work()"),
}


@pytest.mark.parametrize("case", CASES)
def test_advice_about_lines_of_the_host(case: str) -> None:
    given = list(host_bound._advice(Synth().run(), CASES[case]()))
    assert given
    for advice in given:
        check(advice)


@pytest.mark.parametrize("workers", [None, 0, 4])
@pytest.mark.parametrize("suggested", [None, 4])
@pytest.mark.parametrize("gpu", [False, True])
def test_advice_about_more_workers(workers: int | None, suggested: int | None, gpu: bool) -> None:
    facts = LoaderFacts(
        described=True, busy=None, used=None, workers=workers, suggested=suggested, pinned=None, persistent=None,
        places=(), call_site=PLACE,
    )  # fmt: skip
    check(input_bound._more_workers(facts, suggested, gpu=gpu))
