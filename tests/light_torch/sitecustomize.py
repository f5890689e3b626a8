"""Found through PYTHONPATH by jobs of tests: torch imports what traces programs where one is traced, not at its start.

What compiles and exports takes a third of the import of torch. The first step of an optimizer imports torch._dynamo,
and the first profiler torch._inductor, which take as long as all of torch, only to say that nothing is compiled here.
In these jobs such a module is read from its file once anything of it is asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any


def _as_it_is(function: Any = None, *_: Any, **__: Any) -> Any:
    return function


def _of_the_module(package: str, name: str) -> Callable[..., Any]:
    """A function that is read once it is called: torch takes it over at its own import."""

    def call(*given: Any, **named: Any) -> Any:
        _read(package)
        return getattr(sys.modules[package], name)(*given, **named)

    return call


def _no(package: str, name: str) -> Callable[..., bool]:
    """As the module answers: nothing is compiled as long as it is not read."""

    def answer() -> bool:
        module = sys.modules[package]
        return not _is_unread(module) and bool(getattr(module, name)())

    return answer


class _DynamoUtils:
    """What is asked for wherever a model is wrapped for several ranks."""

    @staticmethod
    def get_optimize_ddp_mode() -> str:
        return "ddp_optimizer"

    def __getattr__(self, name: str) -> Any:
        _read("torch._dynamo")
        return getattr(sys.modules["torch._dynamo"].utils, name)


_TRACERS: dict[str, dict[str, Any]] = {
    "torch.export": {},
    "torch._higher_order_ops": {
        name: _of_the_module("torch._higher_order_ops", name) for name in ("cond", "while_loop")
    },
    "torch._prims": {},
    "torch._decomp": {},
    "torch._refs": {},
    "torch._meta_registrations": {},
    "torch.compiler": {
        name: _no("torch.compiler", name) for name in ("is_compiling", "is_dynamo_compiling", "is_exporting")
    },
    "torch._dynamo": {"graph_break": _as_it_is, "disable": _as_it_is, "utils": _DynamoUtils()},
    "torch._inductor": {},
}
"""What traces programs, each with what is taken from it where nothing is compiled. They know each other."""

_LATER = {**_TRACERS, "torch.distributions": {}, "torch.quantization": {}}
_IN_ORDER = ("torch.export", "torch._meta_registrations", "torch.compiler")
"""As torch imports them: the other tracers come with these, and torch._dynamo where it is asked for."""

_APART = ("torch._inductor.config", "torch._inductor.custom_graph_pass")
"""Settings that each profiler looks at. They need nothing of their package."""

_begun: list[str] = []


class _Unread(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _read(self.__name__)
        return getattr(self, name)


def _is_unread(module: Any) -> bool:
    return type(module) is _Unread


def _read(name: str) -> None:
    """Read a module from its file, if it was imported and not read yet."""
    module: Any = sys.modules.get(name)
    if _is_unread(module) and name in _TRACERS and not _begun:
        _begun.append(name)
        for first in _IN_ORDER:
            __import__(first)
            _read(first)
    if _is_unread(module):
        module.__class__ = ModuleType
        module.__loader__.of_file.exec_module(module)


def _let_generators_be_made() -> None:
    """What torch._prims does at its import for all: before it, torch.Generator() is an error."""
    core = sys.modules["torch._C"]
    if hasattr(core, "_set_generator_metaclass"):
        from torch._opaque_base import OpaqueBaseMeta

        core._set_generator_metaclass(OpaqueBaseMeta)


class _Later:
    """Leaves a few functions in place of torch's own until the module is read."""

    def __init__(self, of_file: Any) -> None:
        self.of_file = of_file

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        vars(module).update(_LATER[module.__name__])
        module.__class__ = _Unread
        if module.__name__ == "torch._meta_registrations":
            _let_generators_be_made()


class _Lasting:
    """What torch makes at its import lasts: no collection of the job looks at it, nor that at the job's end."""

    def __init__(self, of_file: Any) -> None:
        self.of_file = of_file

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of_file, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.of_file.create_module(spec)

    def exec_module(self, module: Any) -> None:
        import gc

        self.of_file.exec_module(module)
        gc.freeze()


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "torch":
            return _found(name, path, target, _Lasting)
        package = ".".join(name.split(".", 2)[:2])
        if package not in _LATER or name in _APART:
            return None
        _read(package)  # a module within is asked for
        if name != package:
            return None
        return _found(name, path, target, _Later)


def _found(name: str, path: Any, target: Any, loader: Callable[[Any], Any]) -> ModuleSpec | None:
    """The file of a module, with a loader of ours around its own."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, path, target)
    if spec is not None:
        spec.loader = loader(spec.loader)
    return spec


sys.meta_path.insert(0, _Finder)
