"""Names of kernels, modules and files in few cells: what tells one from another stays, the rest becomes an ellipsis."""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from stepscope.render.format import shorten

__all__ = ["FRAME", "abbreviated", "told_apart"]

_NAMESPACES = re.compile(r"(?:\(anonymous namespace\)|[A-Za-z_]\w*)::")
_INNERMOST = re.compile(r"<(?!…>)(?:[^<>]|<…>)*>")
_TILE = re.compile(r"(.*_tilesize\d+x\d+x\d+)_.*")  # of NVIDIA's matrix kernels: what follows is alike in most
_IDENTIFIER = re.compile(r"[A-Za-z]\w{5,}")
_COMMON = re.compile(
    r"T(rivial|ensor|ypes)\w*|\w*(Array|array|Offset\w*|Memory|func_wrapper_t|Cast|_nocast|gpu_kernel_impl|Metadata)|"
    r"unsigned|double|BFloat16|BinaryFunctor|(Unary|AUnary|BUnary)Functor|ReduceOp|at_cuda_detail|lambda|operator|static_cast"
)
"""Identifiers in the arguments of a template that say nothing of what the kernel does."""
_TENSILE = re.compile(r"(Cijk_[A-Za-z]+_[A-Za-z]+)_.*_(MT\d+x\d+x\d+)(_.*)")  # layout and tile, of AMD's matrix kernels
FRAME = re.compile(r"(\S+\.py)(\(\d+\): \S+)")
"""A Python frame as profilers name it: file, and line with function."""

_DIFFERENCE = 14  # characters of the part in which names differ: `_NTA4_NTB0_NTC` needs no more
_WORD = re.compile(r"[A-Za-z0-9]+")
_PARTS = re.compile(r"[^\s<>(){}]+")  # a path, of modules or files, and not a name of C++


def told_apart(names: Iterable[str], cells: int) -> dict[str, str]:
    """Each name `abbreviated`; those that would look alike end with the part in which they first differ."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(abbreviated(name, cells), []).append(name)
    return {name: shown for short, same in alike.items() for name, shown in _apart(short, same, cells)}


def _apart(short: str, same: list[str], cells: int) -> Iterator[tuple[str, str]]:
    """Names that look alike in `short`, each with how it is shown; in order, the most similar ones are neighbors."""
    if len(same) == 1:
        yield same[0], short
        return
    ordered = sorted(same)
    common = [0, *(_common(one, other) for one, other in pairwise(ordered)), 0]
    for at, name in enumerate(ordered):
        yield name, _until(name, max(common[at], common[at + 1]), cells)


def _common(one: str, other: str) -> int:
    """The number of letters that two names begin with alike."""
    differing = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def _until(name: str, differs: int, cells: int) -> str:
    """The name with the part at which it differs from another, from the beginning of that word."""
    begins = max((word.start() for word in _WORD.finditer(name) if word.start() <= differs), default=differs)
    part = name[max(begins, differs - _DIFFERENCE // 2) :][:_DIFFERENCE]
    return (
        f"{abbreviated(name, max(cells - len(part) - 1, 1)).rstrip('…')}…{part}" if part else abbreviated(name, cells)
    )


def abbreviated(name: str, cells: int) -> str:
    """`name` in at most `cells` characters.

    Of C++ the namespaces go first, then the arguments, the inner ones of templates before the outer ones; of a path of
    modules or files the parts after the first, of a Python frame those of its file; of others the middle.
    """
    if len(name) <= cells:
        return name
    if _TENSILE.fullmatch(name):
        return _of_tensile(name, cells)
    if (tile := _TILE.fullmatch(name)) and len(tile[1]) < cells:
        return _begun(name, cells)
    if frame := FRAME.fullmatch(name):
        return _of_frame(frame[1], frame[2], cells)
    if "::" in name or "<" in name:
        return _of_cpp(name, cells)
    for mark in "/.":
        if mark in name.strip(mark) and _PARTS.fullmatch(name.strip()):
            return _of_path(name, mark, cells)
    return shorten(name, cells)


def _of_tensile(name: str, cells: int) -> str:
    """Layout, tile and as much of what follows as fits: kernels of one tile differ there."""
    for pattern in (r"\1…\2\3", r"Cijk…\2\3"):
        tile = _TENSILE.sub(pattern, name)
        if len(_TENSILE.sub(pattern.removesuffix(r"\3"), name)) < cells:
            return _begun(tile, cells)
    return shorten(_TENSILE.sub(r"Cijk…\2…", name), cells)


def _of_frame(path: str, place: str, cells: int) -> str:
    """The file with as many folders as fit, and the place in it."""
    file = path.rpartition("/")[2]
    room = cells - len(place)
    return f"{abbreviated(path, room)}{place}" if room >= len(file) + len("…/") else _begun(f"{file}{place}", cells)


def _begun(name: str, cells: int) -> str:
    return name if len(name) <= cells else f"{name[: max(cells - 1, 0)]}…"


def _of_cpp(name: str, cells: int) -> str:
    name = whole = _NAMESPACES.sub("", name.removeprefix("void "))
    if len(name) > cells and name.endswith(")"):
        name = _without_parameters(name)
    while len(name) > cells:
        inner = max(_INNERMOST.finditer(name), key=lambda found: name[: found.start()].count("<"), default=None)
        if inner is None or inner.start() == name.find("<"):
            break
        name = f"{name[: inner.start()]}<…>{name[inner.end() :]}"
    if len(name) > cells:
        name = name.removesuffix("(…)")
    return name if len(name) <= cells else _with_work(name, whole, cells)


def _with_work(name: str, whole: str, cells: int) -> str:
    """The template and what it does: `elementwise_kernel<…MulFunctor…>`; where that is not told, the beginning."""
    head, bracket, arguments = whole.partition("<")
    words = (word[0] for word in _IDENTIFIER.finditer(arguments.partition("(TensorIterator")[0] or arguments))
    work = next((word for word in words if not _COMMON.fullmatch(word)), None) if bracket else None
    if work is None or work in _begun(name, cells)[:-1]:
        return _begun(name, cells)
    told = f"{head}<…{work}…>"
    return told if len(told) <= cells else f"{shorten(head, max(cells - len(work) - 4, 8))}<…{work}…>"[:cells]


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
