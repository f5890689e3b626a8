"""What must hold for every file of the project: sizes, names, words, and the Python that the collector runs on."""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

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
        if top.is_file() and top.name != ".git" and not top.name.startswith(".coverage"):
            yield top
    for folder in ("src", "tests", "tools", "docs", "changes", "examples", "bench", "web-app", ".ci", ".github"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in WRITTEN and path.is_file() and not BUILT.intersection(path.parts):
                yield path


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


SOURCES = python_files("src", "tests", "tools", "examples", "bench")
COLLECTOR = python_files("src/stepscope/collect", "src/stepscope/integrations")


def offenders(paths: Iterable[Path], faults: Callable[[Path], Iterable[object]]) -> list[str]:
    """What each file does against a rule, a line for each fault."""
    return [f"{name_of(path)}: {fault}" for path in paths for fault in faults(path)]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def lengths(path: Path) -> Iterator[str]:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{lines} lines"
    if path.stem in UNTELLING_MODULE_NAMES:
        yield "a name that tells nothing"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            size = node.end_lineno - node.lineno + 1
            if size > MAX_FUNCTION_LINES:
                yield f"{node.name}, line {node.lineno}: {size} lines"


def test_files_and_functions_are_short_and_modules_are_named_for_what_they_give() -> None:
    assert len(SOURCES) > 700
    assert offenders(SOURCES, lengths) == []


def private_imports(path: Path) -> Iterator[str]:
    """Modules that begin with an underscore belong to their folder alone."""
    folder = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
    for node in ast.walk(tree_of(path)):
        for name in imported_modules(node):
            owner, private, _ = re.split(r"\.(_[a-z])", f"{name}.", maxsplit=1) if "._" in name else (name, "", "")
            if private and owner != folder:
                yield f"line {getattr(node, 'lineno', 0)}: {name} is private to {owner}"


def imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.startswith("stepscope.")]
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stepscope"):
        return [f"{node.module}.{alias.name}" for alias in node.names] if alias_is_module(node) else [str(node.module)]
    return []


def alias_is_module(node: ast.ImportFrom) -> bool:
    """`from package import module`."""
    folder = PACKAGE.parent.joinpath(*str(node.module).split("."))
    return folder.is_dir() and any((folder / f"{alias.name}.py").exists() for alias in node.names)


COMPILED_ALONE = ("stepscope.native._scanner",)
"""Every algorithm of the compiled module has its own caller; the package around it only says how to build it."""


def test_a_leading_underscore_means_private_to_its_folder() -> None:
    faults = offenders(python_files("src"), private_imports)
    assert [fault for fault in faults if not any(name in fault for name in COMPILED_ALONE)] == []


def folders(package: str) -> set[str]:
    return {path.name for path in (PACKAGE / package).iterdir() if path.is_dir() and (path / "__init__.py").exists()}


def test_a_topic_has_the_same_folder_everywhere() -> None:
    topics = folders("analyses") - {"lib"}
    assert folders("rules") | folders("report/sections") <= topics
    tests = {
        path.name for kind in ("analyses", "rules", "report/sections") for path in (ROOT / "tests" / kind).iterdir()
    }
    assert {name for name in tests if not name.endswith((".py", "__pycache__"))} - {"lib"} <= topics


def public_names(tree: ast.Module) -> list[str]:
    """What a module lists in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def without_docstring(path: Path) -> Iterator[str]:
    tree = tree_of(path)
    if tree.body and not ast.get_docstring(tree):
        yield "the module does not say what it gives"
    public = public_names(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in public and not ast.get_docstring(node):
            yield node.name


def test_public_names_have_docstrings() -> None:
    assert offenders(python_files("src"), without_docstring) == []


def unwanted_lines(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if UNWANTED.search(text):
        for number, line in enumerate(text.splitlines(), 1):
            if UNWANTED.search(line):
                yield f"line {number}: {line.strip()}"


def test_text_holds_no_unfinished_business_and_no_path_of_one_machine() -> None:
    assert offenders(text_files(), unwanted_lines) == []


def test_what_runs_alone_is_where_the_gate_looks_for_it() -> None:
    marked = {
        path for path in python_files("tests") if re.search(r"pytest\.mark\.alone$", path.read_text(), re.MULTILINE)
    }
    assert marked
    assert {path.parent for path in marked} == {ROOT / "tests" / "collect"}


def too_new(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST_JOB_PYTHON)
    except SyntaxError as error:
        yield f"line {error.lineno}: {error.msg}"
        return
    unions = any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
        for holder in ast.walk(tree)
        for annotation in annotations(holder)
        for node in ast.walk(annotation)
    )
    lazy = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    if unions and not lazy:
        yield "from __future__ import annotations: else `X | None` fails on Python 3.9"


def test_what_runs_in_the_job_is_written_for_the_oldest_python() -> None:
    assert COLLECTOR
    assert offenders(COLLECTOR, too_new) == []


def unknown_imports(path: Path) -> Iterator[str]:
    tree = tree_of(path)
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
            if not roots(node) <= late:
                yield f"line {node.lineno}: {sorted(roots(node) - late)}"


def test_what_runs_in_the_job_imports_the_standard_library_and_the_framework_late() -> None:
    assert offenders(COLLECTOR, unknown_imports) == []


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
