"""Found through PYTHONPATH by jobs of tests: torch imports its compiler when it compiles, not with the first step.

The first step of an optimizer imports torch._dynamo, which takes as long as all the rest of torch, only to say that
nothing is compiled here. In these jobs the module is read from its file once anything else of it is asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from typing import Any

_NAME = "torch._dynamo"


def _as_it_is(function: Any = None, *_: Any, **__: Any) -> Any:
    return function


class _Unread(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _read(self)
        return getattr(self, name)


def _read(module: Any) -> None:
    module.__class__ = ModuleType
    module.__loader__.of_file.exec_module(module)


class _Later:
    """Leaves two functions in place of torch's own until the module is read."""

    def __init__(self, of_file: Any) -> None:
        self.of_file = of_file

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        module.graph_break = module.disable = _as_it_is
        module.__class__ = _Unread


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(_NAME):
            return None
        package = sys.modules.get(_NAME)
        if isinstance(package, _Unread):  # a module within is asked for
            _read(package)
        if name != _NAME:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = _Later(spec.loader)  # type: ignore[assignment]
        return spec


sys.meta_path.insert(0, _Finder)
