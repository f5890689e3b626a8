"""Names of kernels, modules and files in few cells: what tells one from another stays, the rest becomes an ellipsis."""

import re

from stepscope.render.format import shorten

__all__ = ["FRAME", "abbreviated"]

_NAMESPACES = re.compile(r"(?:\(anonymous namespace\)|[A-Za-z_]\w*)::")
_INNERMOST = re.compile(r"<(?!…>)(?:[^<>]|<…>)*>")
_TENSILE = re.compile(r"(Cijk_[A-Za-z]+_[A-Za-z]+)_.*_(MT\d+x\d+x\d+)_.*")  # layout and tile, of AMD's matrix kernels
FRAME = re.compile(r"(\S+\.py)(\(\d+\): \S+)")
"""A Python frame as profilers name it: file, and line with function."""

_PARTS = re.compile(r"[^\s<>(){}]+")  # a path, of modules or files, and not a name of C++


def abbreviated(name: str, cells: int) -> str:
    """`name` in at most `cells` characters.

    Of C++ the namespaces go first, then the arguments, the inner ones of templates before the outer ones; of a path of
    modules or files the parts after the first, of a Python frame those of its file; of others the middle.
    """
    if len(name) <= cells:
        return name
    if _TENSILE.fullmatch(name):
        tile = _TENSILE.sub(r"\1…\2…", name)
        return tile if len(tile) <= cells else shorten(_TENSILE.sub(r"Cijk…\2…", name), cells)
    if frame := FRAME.fullmatch(name):
        return _of_frame(frame[1], frame[2], cells)
    if "::" in name or "<" in name:
        return _of_cpp(name, cells)
    for mark in "/.":
        if mark in name.strip(mark) and _PARTS.fullmatch(name.strip()):
            return _of_path(name, mark, cells)
    return shorten(name, cells)


def _of_frame(path: str, place: str, cells: int) -> str:
    """The file with as many folders as fit, and the place in it."""
    file = path.rpartition("/")[2]
    room = cells - len(place)
    return f"{abbreviated(path, room)}{place}" if room >= len(file) + len("…/") else _begun(f"{file}{place}", cells)


def _begun(name: str, cells: int) -> str:
    return name if len(name) <= cells else f"{name[: max(cells - 1, 0)]}…"


def _of_cpp(name: str, cells: int) -> str:
    name = _NAMESPACES.sub("", name.removeprefix("void "))
    if len(name) > cells and name.endswith(")"):
        name = _without_parameters(name)
    while len(name) > cells:
        inner = max(_INNERMOST.finditer(name), key=lambda found: name[: found.start()].count("<"), default=None)
        if inner is None or inner.start() == name.find("<"):
            break
        name = f"{name[: inner.start()]}<…>{name[inner.end() :]}"
    return _begun(name, cells)


def _without_parameters(name: str) -> str:
    """`f<T>(int, float)` without what stands between the last brackets of the outermost level."""
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return f"{name[:place]}(…)" if place and name[place + 1 : -1] else name
    return name


def _of_path(path: str, mark: str, cells: int) -> str:
    """The first part and as many of the last ones as fit; of a path of files the last ones alone."""
    first, *parts = path.split(mark)
    lead = f"{first}…" if mark == "." else "…/"
    for skipped in range(1, len(parts)):
        shown = f"{lead}{mark.join(parts[skipped:])}"
        if len(shown) <= cells:
            return shown
    last = f"…{parts[-1]}"
    return last if len(last) <= cells else shorten(parts[-1], cells)
