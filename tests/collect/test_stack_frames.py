"""How a stack is described: the user's frames, the library's between them and the innermost one."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

from stepscope.collect.origins import Origins
from stepscope.collect.stack_frames import Describer

LOOP = """
class Loop:
    def fit(self, look, depth=3):
        return self.fit(look, depth - 1) if depth else self.save_checkpoint(look)
    def save_checkpoint(self, look):
        return look()
"""


def described(package: Path) -> dict[str, Any]:
    """What is written down of a stack in which a library calls itself three times, then saves."""
    sys.path.insert(0, str(package))
    try:
        from acme.loop import Loop  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(package))
    found: list[dict[str, Any]] = []
    space: dict[str, Any] = {
        "Loop": Loop,
        "seen": lambda frame: found.append(Describer(Origins(), None).describe(spots(frame))),
    }
    leaf = compile("import sys\ndef leaf(): seen(sys._getframe())\n", str(package / "acme" / "files.py"), "exec")
    exec(leaf, space)
    script = compile("def main(): Loop().fit(leaf)\n", str(package.parent / "train.py"), "exec")
    exec(script, space)
    space["main"]()
    return found[0]


def spots(frame: FrameType | None) -> tuple[Any, ...]:
    """Code and offset of the frames of the script and of the library, innermost first."""
    told: list[Any] = []
    while frame is not None and "acme" in frame.f_code.co_filename + "acme" * (frame.f_code.co_name == "main"):
        told += [frame.f_code, frame.f_lasti]
        frame = frame.f_back
    return tuple(told)


def test_library_frames_between_the_users_line_and_the_innermost_one_are_told_once(tmp_path: Path) -> None:
    package = tmp_path / "site-packages"
    (package / "acme").mkdir(parents=True)
    (package / "acme" / "loop.py").write_text(LOOP)
    row = described(package)
    assert [frame[2] for frame in row["frames"]] == ["main"]
    assert (row["call"][2], row["leaf"][2]) == ("fit", "leaf")
    assert [name.rpartition(".")[2].split()[-1] for name in row["between"]] == ["fit", "save_checkpoint"]
    assert row["between"][-1].startswith("acme/loop.py ")
