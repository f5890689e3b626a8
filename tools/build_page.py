"""Build the page from web-app/ into src/stepscope/render/static: `python tools/build_page.py`.

The package build calls it. What is built already from the same sources is left alone, so that a source distribution
that holds the built page needs no npm. The glossary and the pages of rules are written for the page from docs/.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["build_page", "glossary", "paragraphs", "rule_pages", "translations", "write_words"]

_MISSING = (
    "stepscope: npm was not found, so the page is not built: `stepscope view` and `--format html` will say so. "
    "Install Node.js 20 or newer with npm and install stepscope again.\n"
)
_EXPLAINED = ("Training", "Data loading", "Time", "Limits")  # sections of the glossary
_ROW = re.compile(r"\| ([^|]+?) \| ([^|]+?) \|")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_LINKED_NOTE = re.compile(r" \((?:rules|format)\)")  # what is left of a link to another page
_MARK = re.compile(r"(#+ |\s*[-*] |)(.*)")
_OTHER_NAME = re.compile(r"(.+?) \((.+?)\)")


def build_page(root: Path) -> bool:
    """Build the page, unless it is up to date. False where it could not be built: the package works without it."""
    sources, target = root / "web-app", root / "src" / "stepscope" / "render" / "static"
    if not (sources / "package.json").is_file():
        return False
    write_words(root)
    state, built = _state(sources), target / "built.txt"
    if built.is_file() and built.read_text() == state:
        return True
    npm = shutil.which("npm")
    if npm is None:
        sys.stderr.write(_MISSING)
        return False
    commands = (
        [npm, "ci", "--silent", "--no-fund", "--no-audit"],
        [npm, "run", "--silent", "build", "--", str(target)],
    )
    for command in commands:
        done = subprocess.run(command, cwd=sources, check=False)
        if done.returncode:
            sys.stderr.write(f"stepscope: `{' '.join(command)}` failed in {sources}: the page is not built\n")
            return False
    for language in sorted(folder.name for folder in (sources / "src" / "words").iterdir() if folder.is_dir()):
        text = json.dumps(translations(root, language), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        (target / f"{language}.json").write_text(text, encoding="utf-8")
    built.write_text(state)
    return True


def write_words(root: Path) -> None:
    """Write what the page says about terms and rules, from the documentation; a file that is current stays as it is."""
    folder = root / "web-app" / "src" / "words"
    for name, words in (("glossary.json", glossary(root)), ("rules.json", rule_pages(root))):
        text = json.dumps(words, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        file = folder / name
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def glossary(root: Path) -> dict[str, str]:
    """The meaning of each term of training; a term with another name in parentheses is listed under both.

    Terms about reports and code are left out: they are plain words in sentences about a run.
    """
    found: dict[str, str] = {}
    section = ""
    for line in (root / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        row = _ROW.fullmatch(line)
        if section not in _EXPLAINED or row is None or row[1] in ("term", "---"):
            continue
        meaning = _LINKED_NOTE.sub("", _LINK.sub(r"\1", row[2])).replace("*", "")
        both = _OTHER_NAME.fullmatch(row[1])
        found.update(dict.fromkeys(both.groups() if both else (row[1],), meaning))
    return found


def rule_pages(root: Path) -> dict[str, str]:
    """The page of each rule, in Markdown."""
    pages = sorted((root / "docs" / "rules").glob("*/*.md"))
    return {page.stem: page.read_text(encoding="utf-8") for page in pages if page.stem != "index"}


def translations(root: Path, language: str) -> dict[str, dict[str, str]]:
    """What the page loads for a language: messages with their translations, and the page of each rule."""
    messages: dict[str, str] = {}
    for file in sorted((root / "web-app" / "src" / "words" / language).glob("*.json")):
        messages.update(json.loads(file.read_text(encoding="utf-8")))
    rules: dict[str, str] = {}
    of_rules: set[str] = set()
    for rule, page in rule_pages(root).items():
        parts = paragraphs(page)
        rules[rule] = "\n\n".join(f"{mark}{messages.get(text, text)}" for mark, text in parts) + "\n"
        of_rules.update(text for _, text in parts)
    return {"messages": {text: told for text, told in messages.items() if text not in of_rules}, "rules": rules}


def paragraphs(page: str) -> list[tuple[str, str]]:
    """The parts of a page that can be translated, each on one line, with the mark before it: `## `, `- ` or nothing.

    Code is left out, and so is an example, which is code alone.
    """
    found: list[tuple[str, str]] = []
    for line in page.partition("\n## Example\n")[0].splitlines():
        mark, text = _MARK.fullmatch(line).groups()  # type: ignore[union-attr]  # which fits every line
        if not line.strip() or mark or not found or found[-1][0].startswith("#"):
            found.append((mark, text))
        else:
            before, begun = found[-1]
            found[-1] = (before, f"{begun} {text.strip()}" if begun else text)
    return [(mark, text) for mark, text in found if text]


def _state(sources: Path) -> str:
    """A digest of all sources of the page."""
    files = sorted(path for path in sources.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(sources).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(not build_page(Path(__file__).parents[1]))
