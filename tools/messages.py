"""The messages that the page can show, and what each language of the page lacks: `python tools/messages.py [LANGUAGE]`.

A message is a text of ours as it stands in the source, with `{}` for each name or figure in it. The page looks up what
it shows in the catalog of its language, `web-app/src/words/LANGUAGE/*.json`, from English to that language. There `{1}`
is the first `{}` as it is, `{1*}` the same where it is a message itself. So rules and sections know no languages.

Taken are all texts of two words or more in the modules that write for readers, but docstrings, code, patterns and what
is only in an example; meanings of columns; terms of the glossary; and the paragraphs of the pages of rules.
"""

import ast
import json
import re
import runpy
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

__all__ = ["Message", "catalog", "messages", "missing", "template"]

ROOT = Path(__file__).parents[1]
WORDS = ROOT / "web-app" / "src" / "words"
WRITERS = (
    "rules", "report", "analyses", "models", "compare", "core/boundary.py", "core/schema.py", "importers",
    "render/format.py", "render/verdict.py", "web/routes/tables.py",
)  # fmt: skip
"""Modules and packages of stepscope whose texts reach the page."""

NAMES_OF_KEYS = ("layout.py", "plain_pickle.py")  # modules that hold what others write
_PATTERN = re.compile(r"\\|\(\?|^\^|\$$|[^ ]\||\|[^ ]|::")
_NAMES = re.compile(r"(?!.*\b(of|the|in|it|that|on|to)\b)(?=.*_)[a-z0-9_ ]+")  # of operators, one after the other
_COMMAND = re.compile(r"(stepscope|taskset|docker|nvidia-smi|aws) |[A-Z_]+=|[\w.]+: *\w+( \||\])|#")
_PLACES = re.compile(r"(\{[^{}]*\})+")  # two beside each other are one to who reads them
_WORDS = re.compile(r"[A-Za-z]{2,}")
_SPOKEN = (
    ast.Call,
    ast.Assign,
    ast.Return,
    ast.With,
    ast.FunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.For,
    ast.Subscript,
)

Message = tuple[str, int, str]
"""File, line, and the text."""


def messages() -> Iterator[Message]:
    """All messages, in the order of their files."""
    for name in WRITERS:
        place = ROOT / "src" / "stepscope" / name
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in (one for one in files if one.name not in NAMES_OF_KEYS):
            for line, text in _of_module(ast.parse(file.read_text(encoding="utf-8"))):
                yield str(file.relative_to(ROOT)), line, text
    builder = runpy.run_path(str(ROOT / "tools" / "build_page.py"))
    for term, meaning in builder["glossary"](ROOT).items():
        yield from (("docs/glossary.md", 1, text) for text in (term, meaning))
    for rule, page in builder["rule_pages"](ROOT).items():
        yield from ((f"docs/rules: {rule}", 1, text) for mark, text in builder["paragraphs"](page) if mark != "# ")


@cache
def catalog(language: str) -> dict[str, str]:
    """All entries of a language. Raises ValueError for a message in two files."""
    found: dict[str, str] = {}
    for file in sorted((WORDS / language).glob("*.json")):
        entries = json.loads(file.read_text(encoding="utf-8"))
        twice = sorted(found.keys() & entries.keys())
        if twice:
            raise ValueError(f"{file.name} translates again: {twice}")
        found.update(entries)
    return found


def missing(language: str, wanted: Iterable[Message] | None = None) -> list[Message]:
    """Messages without an entry in the catalog of a language, each once."""
    known = catalog(language).keys()
    lacking = {text: (file, line, text) for file, line, text in wanted or messages() if text not in known}
    return list(lacking.values())


def template(text: str) -> str:
    """A text with `{}` for whatever stands in it, as catalogs have it."""
    return _PLACES.sub("{}", text).strip(" ")


def _of_module(tree: ast.Module) -> Iterator[tuple[int, str]]:
    yield from _texts(tree, frozenset(map(id, _unshown(tree))))


def _texts(node: ast.AST, unshown: frozenset[int]) -> Iterator[tuple[int, str]]:
    if id(node) in unshown:
        return
    if isinstance(node, ast.Constant | ast.JoinedStr):
        text = template(_written(node))
        if _is_message(text):
            yield node.lineno, text
    inside = (
        part
        for part in ast.iter_child_nodes(node)
        if not (isinstance(node, ast.JoinedStr) and isinstance(part, ast.Constant))
    )
    for part in inside:
        yield from _texts(part, unshown)


def _written(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node.value, str) else ""


def _is_message(text: str) -> bool:
    words = re.sub(r"`[^`]*`", "", text)
    if len(_WORDS.findall(words)) < 2 or " " not in words or "\n" in text:
        return False
    return not (_PATTERN.search(text) or _COMMAND.match(text) or _NAMES.fullmatch(text) or _is_python(text))


def _is_python(text: str) -> bool:
    try:
        tree = ast.parse(text.replace("{}", "x"))
    except SyntaxError:
        return False
    return any(isinstance(node, _SPOKEN) for node in ast.walk(tree))


def _unshown(tree: ast.Module) -> Iterator[ast.AST]:
    """Docstrings, code of advice, what only an example writes, and what is raised as an error of programming."""
    lists = {
        node.value.id for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "split" and isinstance(node.value, ast.Name)
    }  # fmt: skip
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef():
                if isinstance(node, ast.FunctionDef) and any(_is_synth(one) for one in node.args.args):
                    yield node
                yield from (
                    one for one in node.body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
                )
            case ast.AnnAssign():
                yield node.annotation
            case ast.Raise(exc=ast.Call(func=ast.Name(id="ValueError" | "BadInput" | "TypeError" | "KeyError"))):
                yield node
            case ast.Call(func=ast.Name(id="Advice")):
                yield from (*node.args[1:], *(one for one in node.keywords if one.arg != "text"))
            case ast.Compare():
                yield node
            case ast.Assign(targets=[ast.Name(id=name)]) if name in lists:
                yield node
            case _:
                pass


def _is_synth(argument: ast.arg) -> bool:
    return isinstance(argument.annotation, ast.Name) and argument.annotation.id == "Synth"


def main(languages: list[str]) -> None:
    """Print what each language lacks."""
    for language in languages or sorted(folder.name for folder in WORDS.iterdir() if folder.is_dir()):
        lacking = missing(language)
        print("".join(f"{file}:{line}: {text!r}\n" for file, line, text in lacking), end="")
        print(f"{language}: {len(lacking)} messages without an entry in {(WORDS / language).relative_to(ROOT)}/")


if __name__ == "__main__":
    main(sys.argv[1:])
