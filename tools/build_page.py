"""Build the page from web-app/ into src/stepscope/render/static: `python tools/build_page.py`.

The package build calls it. What is built already from the same sources is left alone, so that a source distribution
that holds the built page needs no npm.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["build_page"]

_MISSING = (
    "stepscope: npm was not found, so the page is not built: `stepscope view` and `--format html` will say so. "
    "Install Node.js 20 or newer with npm and install stepscope again.\n"
)


def build_page(root: Path) -> bool:
    """Build the page, unless it is up to date. False where it could not be built: the package works without it."""
    sources, target = root / "web-app", root / "src" / "stepscope" / "render" / "static"
    if not (sources / "package.json").is_file():
        return False
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
    built.write_text(state)
    return True


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
