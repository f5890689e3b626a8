"""Find plugins: each module of a built-in package, then each installed entry point.

A plugin is a module that assigns one constant, named as its group says; the plugin's name is the module's name with
dashes. There is no registry to edit.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

__all__ = ["Group"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Group(Generic[T]):
    """A kind of plugin: the package that holds the built-in ones, and their type.

    A module of package `rules` assigns RULE; other distributions use the entry point group `stepscope.rules`.
    """

    package: str
    kind: type[T]

    def names(self) -> list[str]:
        """Names of all plugins, sorted, without importing them."""
        return sorted({*_modules(self._group), *(point.name for point in _installed(self._group))})

    def load(self) -> dict[str, T]:
        """Return every plugin by name. A module without its constant is an error that names it."""
        return {name: self.get(name) for name in self.names()}

    def get(self, name: str) -> T:
        """Import one plugin. Raises KeyError if there is none of that name."""
        points = [point for point in _installed(self._group) if point.name == name]
        module_name = _modules(self._group).get(name)
        if module_name and points:
            raise ValueError(f"{points[0].value} redefines the built-in {self.package} plugin {name!r}")
        if module_name:
            return self._checked(getattr(importlib.import_module(module_name), self._constant, None), module_name)
        if not points:
            raise KeyError(name)
        return self._checked(points[0].load(), points[0].value)

    def page(self, name: str) -> str:
        """The docstring of the module that defines a plugin."""
        module_name = _modules(self._group).get(name)
        if module_name:
            return importlib.import_module(module_name).__doc__ or ""
        (point,) = [point for point in _installed(self._group) if point.name == name]
        return importlib.import_module(point.module).__doc__ or ""

    @property
    def _group(self) -> str:
        return f"stepscope.{self.package}"

    @property
    def _constant(self) -> str:
        return self.kind.__name__.upper()

    def _checked(self, plugin: object, where: str) -> T:
        if not isinstance(plugin, self.kind):
            raise TypeError(f"{where} must assign {self._constant} = {self.kind.__name__}(...)")
        return plugin


@cache
def _installed(group: str) -> tuple[EntryPoint, ...]:
    """Entry points of a group. To find them all metadata of all distributions is read: once is enough."""
    return tuple(entry_points(group=group))


@cache
def _modules(package: str) -> dict[str, str]:
    """The module of each built-in plugin of a package, by the plugin's name."""
    return {
        info.name.replace("_", "-"): f"{package}.{info.name}"
        for info in pkgutil.iter_modules(importlib.import_module(package).__path__)
        if not info.name.startswith("_")
    }
