"""What must hold for every file of the project: sizes, names, words, and the Python that the collector runs on."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stepscope"
MAX_FUNCTION_LINES = 60  # a function fits a screen
MAX_FILE_LINES = 400  # a file fits a sitting
OLDEST_JOB_PYTHON = (3, 9)  # the collector runs in the user's Python, which may be older than ours
UNTELLING_MODULE_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}
# Frameworks the collector may import, once the job has: never at the top of a module.
FRAMEWORKS = {"torch", "torchdata", "lightning", "pytorch_lightning", "transformers", "accelerate", "paddle"}
WRITTEN = {".py", ".sh", ".md", ".toml", ".yml", ".yaml", ".html", ".css", ".js", ".mjs", ".ts", ""}
BUILT = {"node_modules", "static"}
# The words are put together here so that this file does not hold them.
UNWANTED = re.compile(
    "|".join(("TO" + "DO", "FIX" + "ME", r"\bX" + r"XX\b", "/wo" + "rk/", "/ro" + "ot/", r"\bissue " + "#?[0-9]"))
)


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def text_files() -> Iterator[Path]:
    for top in sorted(ROOT.iterdir()):
        if top.is_file() and not top.name.startswith(".coverage"):
            yield top
    for folder in ("src", "tests", "tools", "docs", "changes", "examples", "bench", "web-app", ".ci", ".github"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in WRITTEN and path.is_file() and not BUILT.intersection(path.parts):
                yield path


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


SOURCES = python_files("src", "tests", "tools", "examples", "bench")
COLLECTOR = python_files("src/stepscope/collect", "src/stepscope/integrations")


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_and_functions_are_short_and_modules_are_named_for_what_they_give(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_FILE_LINES
    assert path.stem not in UNTELLING_MODULE_NAMES
    long = {
        f"{node.name}, line {node.lineno}": node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert not long


@pytest.mark.parametrize("path", python_files("src"), ids=name_of)
def test_public_names_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public: list[str] = next(
        (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "__all__"
        ),
        [],
    )
    assert ast.get_docstring(tree) or not tree.body, "the module says what it gives"
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in public and not ast.get_docstring(node)
    ]
    assert not bare


@pytest.mark.parametrize("path", list(text_files()), ids=name_of)
def test_text_holds_no_unfinished_business_and_no_path_of_one_machine(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"line {number}: {line.strip()}" for number, line in enumerate(lines, 1) if UNWANTED.search(line)]
    assert not found


def test_what_runs_alone_is_where_the_gate_looks_for_it() -> None:
    marked = {
        path for path in python_files("tests") if re.search(r"pytest\.mark\.alone$", path.read_text(), re.MULTILINE)
    }
    assert marked
    assert {path.parent for path in marked} == {ROOT / "tests" / "collect"}


@pytest.mark.parametrize("path", COLLECTOR, ids=name_of)
def test_what_runs_in_the_job_is_written_for_the_oldest_python(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST_JOB_PYTHON)
    unions = any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
        for holder in ast.walk(tree)
        for annotation in annotations(holder)
        for node in ast.walk(annotation)
    )
    lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    assert lazy or not unions, "from __future__ import annotations: else `X | None` fails on Python 3.9"


@pytest.mark.parametrize("path", COLLECTOR, ids=name_of)
def test_what_runs_in_the_job_imports_the_standard_library_and_the_framework_late(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = {*sys.stdlib_module_names, "stepscope", "sitecustomize"}  # the user's own sitecustomize
    inside_functions = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            late = {*allowed, *FRAMEWORKS} if node in inside_functions else allowed
            assert roots(node) <= late, f"line {node.lineno}"


def roots(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "stepscope").split(".")[0]} if not node.level else {"stepscope"}
    return {alias.name.split(".")[0] for alias in node.names}


def annotations(node: ast.AST) -> list[ast.expr]:
    """Annotations that belong to a node itself."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.returns] if node.returns else []
    if isinstance(node, ast.arg | ast.AnnAssign):
        return [node.annotation] if node.annotation else []
    return []
