"""What a user's words name: traces and runs, split into sources that can each be opened alone, on any core."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath

from stepscope.core.errors import BadInput
from stepscope.core.importing import Reader, Sink
from stepscope.core.paths import AnyPath, is_file, is_folder, is_url, look_again, place, shown, split_query
from stepscope.core.wrong_file_type import foreign
from stepscope.importers import IMPORTERS, MAKE_A_RUN, head
from stepscope.run_format.files import RUN

__all__ = ["RankFiles", "find", "holds_ranks", "named", "nothing_in", "size_of", "stamp_of", "worker_of"]

_SPAN = re.compile(r"^(?P<worker>.*?)(?:\.(?P<stamp>\d+))?\.pt\.trace\.json(?:\.gz)?$")
_MILLISECONDS_END = 10**15  # older writers stamp milliseconds, about 1.6e12; today's nanoseconds, about 1.8e18
_WILD = re.compile(r"[*?\[]")
_WILD_URL = re.compile(r"[*\[]")  # a question mark begins the query of a URL
_SHOWN = 3
_LOOKED_AT = 20  # files of a folder without traces: what they are is the same for all, mostly


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFiles:
    """What is opened in one go: the traces of one worker, or (`read` is given) one process of a run.

    `asked`: the user named the file itself, so it must be readable; of a folder's files some may be broken.
    """

    paths: tuple[AnyPath, ...]
    read: Reader | None = None
    asked: bool = False


def named(words: Iterable[str | AnyPath]) -> list[AnyPath]:
    """The files and folders that words name; patterns such as traces/*.json.gz are filled in. Raises BadInput."""
    found = (path for word in words for path in (_matches(word) if isinstance(word, str) else [word]))
    return list(dict.fromkeys(found))


def find(paths: Sequence[AnyPath], sink: Sink, words: Iterable[str | AnyPath] = ()) -> list[RankFiles]:
    """Everything in some files and folders that may hold ranks. What is of no rank goes to `sink`.

    A file that is one of `words`, not only in a folder or a pattern, was asked for. Raises BadInput for a folder
    without anything, unless there are other paths.
    """
    sources: list[RankFiles] = []
    asked = {_as_path(word) for word in words}
    for path in paths:
        if not is_folder(path):
            if len(paths) > 1 and not is_file(path):
                head(path)  # says what is wrong with it
            sources.append(RankFiles(paths=(path,), asked=str(path) in asked))
            continue
        inside = _of_folder(path, sink)
        if inside is None and len(paths) == 1:
            raise nothing_in(paths)
        if inside is None:
            sink.skip(str(path), f"{_empty(path)}: not read")
        sources += inside or []
    return _by_worker({str(source.paths[0]): source for source in sources}.values())


def holds_ranks(folder: AnyPath, sink: Sink) -> bool:
    """Whether a folder is a run, or holds traces itself."""
    return _of_folder(folder, sink) is not None


def nothing_in(paths: Sequence[AnyPath], left_out: Sequence[tuple[str, str]] = ()) -> BadInput:
    """The error for paths where there is nothing to open; `left_out`: files that were looked at, and why not read."""
    files = [f"{name.rpartition('/')[2]} ({why.removesuffix(': not read')})" for name, why in left_out[:_SHOWN]]
    files += [f"{len(left_out) - _SHOWN} more"] if len(left_out) > _SHOWN else []
    about = f": {', '.join(files)}" if files else _kinds_in(paths[0]) if is_folder(paths[0]) else ""
    if len(paths) == 1 and is_folder(paths[0]):
        return BadInput(paths[0], _empty(paths[0]) + about, next_step=_below(paths[0]))
    others = f"; nor are {len(paths) - 1} more" if len(paths) > 1 else ""
    return BadInput(paths[0], f"neither a trace nor a run{others}{about}", next_step=MAKE_A_RUN)


def worker_of(path: AnyPath) -> str:
    """The name of the worker in the name of a trace, else the whole name."""
    span = _SPAN.match(path.name)
    return span["worker"] if span else path.name


def stamp_of(path: AnyPath) -> int:
    """When a trace was written, ns since the Unix epoch, as its name says; 0 if it does not."""
    span = _SPAN.match(path.name)
    stamp = int(span["stamp"] or 0) if span else 0
    return stamp * 10**6 if stamp < _MILLISECONDS_END else stamp


def size_of(source: RankFiles) -> int:
    """Bytes of the files of a source; 0 where nobody can tell."""
    try:
        files = source.paths if source.read is None else filter(is_file, source.paths[0].glob("*"))
        return sum(file.stat().st_size for file in files)
    except (OSError, BadInput):
        return 0


def _matches(word: str) -> Sequence[AnyPath]:
    words, query = split_query(word)
    wild = (_WILD_URL if is_url(word) else _WILD).search(words)
    if wild is None or (not is_url(word) and Path(word).exists()):
        return [place(word)]
    start = words.rfind("/", 0, wild.start()) + 1
    base = place((words[:start] or ".") + query)
    pattern = words[start:].rstrip("/")
    try:
        found: list[AnyPath] = sorted(base.glob(pattern), key=str)
    except (OSError, ValueError) as error:
        raise BadInput(shown(word), f"cannot be filled in ({error})", next_step=_quote(word)) from error
    if not found:
        raise BadInput(shown(word), "no file and no folder matches", next_step=_quote(word))
    return found


def _quote(word: str) -> str:
    if is_url(word):
        return look_again(shown(word).rpartition("/")[0])
    folder = str(PurePosixPath(word).parent)
    return f"See what is there, for instance with `ls {folder if not _WILD.search(folder) else '.'}`. {MAKE_A_RUN}"


def _of_folder(path: AnyPath, sink: Sink) -> list[RankFiles] | None:
    """The processes of a run, which may be none, or the traces of a folder; None if it is neither."""
    for importer in IMPORTERS.load().values():
        if importer.sniff(path, b""):
            if importer.split is None:
                return [RankFiles(paths=(path,), read=partial(importer.read, path))]
            return [RankFiles(paths=(part.path,), read=part.read) for part in importer.split(path, sink)]
    try:
        files = {str(file): file for pattern in _trace_names() for file in path.glob(pattern) if _is_meant(file)}
    except OSError:
        return None
    return [RankFiles(paths=(files[name],)) for name in sorted(files)] or None


def _trace_names() -> list[str]:
    """The patterns of every importer, each once."""
    return sorted({name for importer in IMPORTERS.load().values() for name in importer.names})


def _is_meant(file: AnyPath) -> bool:
    """Whether it is a file or was to be one: a link to nothing may stand for a rank, and is then told as broken."""
    return is_file(file) or (isinstance(file, Path) and file.is_symlink() and not file.exists())


def _as_path(word: str | AnyPath) -> str:
    return str(Path(word)) if isinstance(word, str) and not is_url(word) else shown(word)


def _by_worker(sources: Iterable[RankFiles]) -> list[RankFiles]:
    """The same, with the stamped traces of a worker, which are spans of its time, in one source."""
    groups: dict[tuple[str, str], list[RankFiles]] = {}
    for source in sources:
        path = source.paths[0]
        alone = source.read is not None or not stamp_of(path)
        groups.setdefault((str(path.parent), path.name if alone else f"{worker_of(path)}/"), []).append(source)
    return [
        RankFiles(
            paths=tuple(path for source in group for path in source.paths),
            read=group[0].read,
            asked=any(source.asked for source in group),
        )
        for group in groups.values()
    ]


def _empty(path: AnyPath) -> str:
    try:
        entries = sum(1 for _ in path.iterdir())
    except OSError as error:
        return (error.strerror or "the folder cannot be read").lower()
    return "a folder without a run and without traces" if entries else "the folder is empty"


def _kinds_in(path: AnyPath) -> str:
    """What a folder of other files holds, if it is of kinds that are known; files elsewhere are not fetched for it."""
    if not isinstance(path, Path):
        return ""
    kinds: Counter[str] = Counter()
    try:
        files = sorted(path.iterdir())
    except OSError:
        return ""  # what is wrong with the folder is said before
    for file in islice(filter(is_file, files), _LOOKED_AT):
        try:
            known = foreign(file, head(file))
        except BadInput:
            continue
        if known:
            kinds[known[0].removeprefix("not JSON but ").removesuffix(", not a trace").partition(";")[0]] += 1
    told = [f"{kind} ({count} {'file' if count == 1 else 'files'})" for kind, count in kinds.most_common(_SHOWN)]
    return f"; it holds {', '.join(told)}" if told else ""


def _below(path: AnyPath) -> str:
    """What to open instead: runs or traces one level down, or where JAX and TensorFlow put them."""
    levels = ("*", "plugins/profile/*")
    try:
        found = sorted(
            {
                str(file.parent)
                for level in levels
                for name in (RUN, *_trace_names())
                for file in path.glob(f"{level}/{name}")
            }
        )
    except OSError:
        found = []
    if not found:
        return MAKE_A_RUN
    commands = ", ".join(f"`stepscope report {folder}`" for folder in found[:_SHOWN])
    return f"It holds other folders; open one of them: {commands}"
