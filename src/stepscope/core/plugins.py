"""Find plugins: each module below a built-in package, then each installed entry point.

A plugin is a module, or a package, that assigns one constant, named as its group says; the plugin's name is the
module's name with dashes. Folders sort plugins by topic; a folder `lib` holds what they share. There is no registry to
edit.
"""

import ast
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Generic, TypeVar

__all__ = ["PluginGroup"]

T = TypeVar("T")


_SHARED = "lib"  # folders of what plugins share


@dataclass(frozen=True, slots=True)
class PluginGroup(Generic[T]):
    """A kind of plugin: the package that holds the built-in ones, and their type.

    A module of package `rules` assigns RULE; other distributions use the entry point group `stepscope.rules`.
    """

    package: str
    kind: type[T]

    def names(self) -> list[str]:
        """Names of all plugins, sorted, without importing them."""
        return sorted({*self._built_in(), *(point.name for point in self._installed())})

    def load(self) -> dict[str, T]:
        """Return every plugin by name. A module without its constant is an error that names it."""
        return {name: self.get(name) for name in self.names()}

    def get(self, name: str) -> T:
        """Import one plugin. Raises KeyError if there is none of that name."""
        points = [point for point in self._installed() if point.name == name]
        module_name = self._built_in().get(name)
        if module_name and points:
            raise ValueError(f"{points[0].value} redefines the built-in {self.package} plugin {name!r}")
        if module_name:
            return self._checked(getattr(importlib.import_module(module_name), self._constant, None), module_name)
        if not points:
            raise KeyError(name)
        return self._checked(points[0].load(), points[0].value)

    def page(self, name: str) -> str:
        """The docstring of the module that defines a plugin."""
        return importlib.import_module(self.module(name)).__doc__ or ""

    def module(self, name: str) -> str:
        """The module that defines a plugin. Raises KeyError if there is none of that name."""
        points = {point.name: point.module for point in self._installed()}
        return {**points, **self._built_in()}[name]

    def _built_in(self) -> dict[str, str]:
        return _modules(f"stepscope.{self.package}", self._constant)

    def _installed(self) -> tuple[EntryPoint, ...]:
        """Entry points of group `stepscope.NAME`, where NAME is the last part of the package's name."""
        return _installed(f"stepscope.{self.package.rpartition('.')[2]}")

    @property
    def _constant(self) -> str:
        return self.kind.__name__.upper()

    def _checked(self, plugin: object, where: str) -> T:
        if not isinstance(plugin, self.kind):
            raise TypeError(
                f"{where} must assign {self._constant} = {self.kind.__name__}(...); "
                f"code that several modules share belongs in a folder {_SHARED}/"
            )
        return plugin


@cache
def _installed(group: str) -> tuple[EntryPoint, ...]:
    """Entry points of a group."""
    return tuple(_select()(group=group))


@cache
def _select() -> Callable[..., EntryPoints]:
    """Finds entry points. The metadata of all distributions are read for it, which is enough once."""
    return entry_points().select


@cache
def _modules(package: str, constant: str) -> dict[str, str]:
    """The module of each built-in plugin below a package, by the plugin's name."""
    found: dict[str, str] = {}
    for folder in importlib.import_module(package).__path__:
        for module in _below(Path(folder), package, constant):
            name = module.rpartition(".")[2].replace("_", "-")
            if name in found:
                raise ValueError(f"{module} and {found[name]} define the same plugin {name!r}")
            found[name] = module
    return found


def _below(folder: Path, package: str, constant: str) -> Iterator[str]:
    """Names of the modules below a folder that are plugins: files, and packages that assign the constant themselves."""
    for path in sorted(folder.iterdir()):
        module = f"{package}.{path.stem}"
        if path.name.startswith(("_", ".")) or path.name == _SHARED:
            continue
        if path.suffix == ".py":
            yield module
        elif (path / "__init__.py").exists():
            if _assigns(path / "__init__.py", constant):
                yield module
            else:
                yield from _below(path, module, constant)
        elif any(path.glob("*.py")):
            raise ValueError(f"no plugin in {path} is found, since it is no package: add {path}/__init__.py")


def _assigns(path: Path, constant: str) -> bool:
    """Whether a module assigns a constant, told without importing it."""
    targets = [
        target
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == constant for target in targets)
