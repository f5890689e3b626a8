"""The line to change: the call that makes the loader, written with the new settings."""

import ast
from dataclasses import dataclass
from pathlib import Path

from stepscope.core.finding import Place
from stepscope.experiments.trial_result import Loader, Setting

__all__ = ["CodeChange", "change_for"]

_POSITIONAL = 5  # words of DataLoader before num_workers; a call that gives more by position is left to a person
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context")
_ARGUMENTS = {
    "num_workers": "dataloader_num_workers",
    "prefetch_factor": "dataloader_prefetch_factor",
    "persistent_workers": "dataloader_persistent_workers",
    "pin_memory": "dataloader_pin_memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """Where to change the script (None: that is not known), and what to write there.

    `whole`: `code` is the call as a whole; else its new words only. `remove` are words that have to go.
    """

    place: Place | None
    code: str
    whole: bool
    remove: tuple[str, ...] = ()


def change_for(winner: Setting, loader: Loader) -> CodeChange:
    """What to write so that the script has these settings itself."""
    remove = tuple(name for name in _OF_WORKERS if winner.get("num_workers") == 0 and _has(loader, name))
    if loader.place is None and loader.made_by == "transformers":
        words = {_ARGUMENTS[name]: value for name, value in winner.values}
        return CodeChange(place=None, code=_words("TrainingArguments", words), whole=False)
    call = _call_at(loader.place) if loader.place else None
    if call is not None:
        edited = _edited(call, winner, remove)
        if edited is not None:
            return CodeChange(place=loader.place, code=edited, whole=True)
    return CodeChange(place=loader.place, code=_words("DataLoader", dict(winner.values)), whole=False, remove=remove)


def _has(loader: Loader, name: str) -> bool:
    return loader.persistent if name == "persistent_workers" else name == "prefetch_factor" and bool(loader.workers)


def _words(name: str, values: dict[str, int | bool | str]) -> str:
    return f"{name}(..., {', '.join(f'{word}={value!r}' for word, value in values.items())})"


def _call_at(place: Place) -> ast.Call | None:
    """The call at a line, told from others by its name; None where the file cannot be read or has changed."""
    try:
        tree = ast.parse(Path(place.file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == place.line]
    named = [call for call in calls if "loader" in ast.unparse(call.func).lower()]
    found = named or calls
    return found[-1] if len(found) == 1 or named else None


def _edited(call: ast.Call, winner: Setting, remove: tuple[str, ...]) -> str | None:
    """The call with the new words; None where words come from elsewhere (`**options`) or by position."""
    starred = any(isinstance(word, ast.Starred) for word in call.args)
    if starred or len(call.args) > _POSITIONAL or any(word.arg is None for word in call.keywords):
        return None
    values = dict(winner.values)
    kept = [word for word in call.keywords if word.arg not in values and word.arg not in remove]
    new = [ast.keyword(arg=name, value=ast.Constant(value)) for name, value in values.items()]
    return ast.unparse(ast.Call(func=call.func, args=call.args, keywords=[*kept, *new]))
