"""Stacks of a snapshot as text, each distinct one made once."""

from dataclasses import dataclass, field

__all__ = ["Stacks"]

_DEPTH = 64  # frames that are kept; deeper ones are recursion
# Frames of C++ are many and tell little, but this one tells that autograd's own thread runs.
_TELLING = "torch::autograd::Engine"


@dataclass(slots=True)
class Stacks:
    """Snapshots share the lists of frames among their entries, so a list is known by its identity.

    Lists must outlive this.
    """

    texts: dict[int, str | None] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)

    def of(self, frames: object) -> str | None:
        """Frames as `file(line): function`, innermost first, separated by ';'. None without Python frames."""
        if not isinstance(frames, list) or not frames:
            return None
        if id(frames) not in self.texts:
            named = [text for frame in frames if isinstance(frame, dict) and (text := _text(frame))]
            text = ";".join(named[:_DEPTH])
            self.texts[id(frames)] = self.same.setdefault(text, text) if named else None
        return self.texts[id(frames)]


def _text(frame: dict[str, object]) -> str:
    file, function = str(frame.get("filename", "")), str(frame.get("name", ""))
    if _TELLING in function:
        return function.replace(";", ",")
    if not file.endswith(".py") and not file.startswith("<"):
        return ""
    return f"{file}({frame.get('line', 0)}): {function}".replace(";", ",")
