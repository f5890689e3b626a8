"""Check that wheels hold all that stepscope needs: `python tools/check_wheel.py dist/*.whl`.

A build without the compiled hooks or the page succeeds. A published wheel needs them. Prints one line
per wheel and exits with 1 if a file is missing.
"""

import sys
from pathlib import Path
from zipfile import ZipFile

NEEDED = {
    "stepscope/collect/inject/sitecustomize.py": "nothing is recorded without it",
    "stepscope/native/_scanner.abi3.so": "no run can be read without it",
    "stepscope/render/static/app.js": "there is no browser report without it",
}
HOOKS = "native_hooks.abi3.so"  # a step costs several times as much without it; Linux only


def missing(wheel: Path) -> list[str]:
    """What the wheel lacks, with the reason why it matters."""
    names = ZipFile(wheel).namelist()
    lacking = [f"{name}: {why}" for name, why in NEEDED.items() if name not in names]
    if "linux" in wheel.name and not any(name.endswith(HOOKS) for name in names):
        lacking.append(f"{HOOKS}: recording costs several times as much without it")
    if "-cp311-abi3-" not in wheel.name:
        lacking.append("the tag cp311-abi3: one wheel serves every Python from 3.11 on")
    return lacking


def main() -> int:
    """Check the wheels that are named."""
    wheels = [Path(name) for name in sys.argv[1:]]
    failed = not wheels
    for wheel in wheels:
        lacking = missing(wheel)
        print(f"{wheel.name}: {'; '.join(lacking) or 'complete'}")
        failed = failed or bool(lacking)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
