"""Write the pages of docs/ that follow from the code: rules, tables, formats, command line.

python tools/generate_docs.py            write them
python tools/generate_docs.py --check    say which differ from the code, write nothing, exit 1 if one does
"""

import argparse
import os
import sys
from pathlib import Path

import command_page
import format_page
import lint_page
import rule_pages
import table_page

DOCS = Path(__file__).parents[1] / "docs"
REFRESH = "python tools/generate_docs.py"


def pages() -> dict[str, str]:
    """Every generated page: path below docs/ and text."""
    return {
        **rule_pages.pages(),
        "tables.md": table_page.page(),
        "cli.md": command_page.page(),
        "reference/formats.md": format_page.page(),
        "reference/lint.md": lint_page.page(),
    }


def outdated(wanted: dict[str, str]) -> list[str]:
    """Paths of pages whose text differs, is missing, or whose rule is gone."""
    differing = [name for name, text in wanted.items() if read(DOCS / name) != text]
    written = {path.relative_to(DOCS).as_posix() for path in (DOCS / "rules").rglob("*.md")}
    return sorted([*differing, *written - wanted.keys()])


def read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def write(wanted: dict[str, str], names: list[str]) -> None:
    for name in names:
        path = DOCS / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[name], encoding="utf-8")
        else:
            path.unlink()


def main() -> int:
    """Return the exit code."""
    os.environ.pop("COLUMNS", None)  # a page is as wide for whoever writes it
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    wanted = pages()
    names = outdated(wanted)
    for name in names:
        print(f"docs/{name} {'is out of date' if check else 'written'}")
    if check:
        print(f"Refresh them with: {REFRESH}" if names else f"{len(wanted)} generated pages are up to date")
        return 1 if names else 0
    write(wanted, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
