"""The one function of ours that torch.compile may look into: it finds there what it would find without us."""

from __future__ import annotations

import os
import sys

from .warning_frames import followed

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = ["compilable", "keep_compiler_out", "run_as_it_is"]


@followed
def compilable(quick: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `quick`, and in code that torch.compile compiles `original`."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    compiles = getattr(compiler, "is_compiling", bool)  # bool() is False: a torch that does not compile

    def step(*args: Any, **kwargs: Any) -> Any:
        if compiles():
            return original(*args, **kwargs)
        try:
            return quick(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise

    return step


def run_as_it_is(frames: ModuleType) -> None:
    """Its frame, where it makes one, is not compiled by itself: only what it calls is. `frames` runs compiled code."""
    for code in compilable.__code__.co_consts:
        if isinstance(code, type(compilable.__code__)):
            frames.skip_code(code)


def keep_compiler_out(trace_rules: ModuleType) -> None:
    """torch.compile is to run our functions, not to look into them, but for the one in this file."""
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(folder)):
        module, ending = os.path.splitext(name)
        is_package = os.path.exists(os.path.join(folder, name, "__init__.py"))
        if name != os.path.basename(__file__) and (ending == ".py" or is_package) and module != "__init__":
            trace_rules.add(f"stepscope.collect.{module}")
