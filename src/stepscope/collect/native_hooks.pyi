"""The compiled hot path of the step clock; absent where it was not built. Only fields.py imports it."""

from collections.abc import Callable
from types import CodeType
from typing import Any

VERSION: int

def without_frame(function: Callable[..., Any], call: Callable[..., Any]) -> bool:
    """Have calls of the Python `function` be calls of `call`, without a frame; false where this Python cannot."""

def defer_collections() -> bool:
    """No collection begins by itself until `allow_collections` is called as often; False: this Python cannot."""

def allow_collections() -> None: ...
def allow_all_collections() -> None:
    """In a forked child, which has no thread that deferred any."""

class State: ...
class Use: ...
class Clock: ...

class FirstAxis:
    """A function batch -> batch[key].shape[0], or batch.shape[0] without a key; UNKNOWN where that raises.

    `plain` is torch.Tensor, or None: what is exactly that is asked for its length in a quicker way.
    """

    def __init__(self, plain: type | None, key: Any = ...) -> None: ...
    def __call__(self, batch: Any) -> int: ...

class Writer:
    """Appends records to a mapped file; `grow` opens it with more room. Raises OSError, ValueError after `close`."""

    def __init__(self, grow: Callable[[], int], header_size: int, record_size: int) -> None: ...
    def __call__(self, record: bytes) -> None: ...
    def close(self) -> int | None:
        """The number of records, the first time."""

class Hook:
    """Calls `original`: accounts ordinary events itself, leaves the others to `unusual`, the Python hook around it."""

    def __init__(self, clock: Clock, original: Callable[..., Any], unusual: Callable[..., Any]) -> None: ...
    def next(self, iterator: Any) -> Any: ...
    def backward(self, *args: Any, **kwargs: Any) -> Any: ...
    def step(self, *args: Any, **kwargs: Any) -> Any: ...

class Watch:
    """Times calls of one thread from outside, without changing what is called.

    `ask(stage, name, frame)`, or `ask(stage, name, None, function, arguments)`, gives name, number and what is kept for
    `answer(name, kept, result)`. `label(entered, frame)`, or `label(entered, caller, arguments)`, is told of labels.
    `full(spans)` takes spans when there are too many. Results of type `generator` are no calls. A failure of theirs is
    as no answer.
    """

    events: int
    """Frames, or calls and returns, since the last `start`."""
    frames: int

    def __init__(
        self,
        ask: Callable[..., tuple[int, int, Any]],
        answer: Callable[[int, Any, Any], None],
        label: Callable[..., None],
        full: Callable[[list[Any]], None],
        generator: type,
    ) -> None: ...
    def add(self, target: Any, kind: int, stage: int, name: int, asks: int, shortest: int) -> None:
        """Watch for a code object, or a function of C, by its address. `name` 0: only what `ask` names is timed."""
    def clear(self) -> None: ...
    def start(self, stop: Callable[[], Any], frames: bool, events: bool) -> bool:
        """Watch this thread by frames or, where that cannot be, by events, until `stop`, the method of this object, is
        called; False: it cannot be watched."""
    def stop(self) -> list[tuple[int, int, int, int, int, int, int]]:
        """Stage, start, end, CPU time, number, name and 0 of each span."""

def unwatch() -> None:
    """In a forked child: what the parent watched is watched no more."""

def map_shared(descriptor: int, size: int) -> memoryview:
    """The memory of a file, which may be shorter, for good; no descriptor of it stays open. Raises OSError."""

class Looker:
    """Samples the lines of the thread of `state` beside it, without the interpreter lock; only within code `within`.

    `code` is any code object, `minor` Python's minor version. Raises NotImplementedError where Python's memory is not
    known. A sample stands for `slot_ns`, for at most `late_ns` when it was late. `full`: it knows as many stacks as it
    can; `unread_ns`: time of samples whose stack could not be read.
    """

    slot_ns: int
    unread_ns: int
    full: int

    def __init__(
        self, state: State, code: CodeType, within: CodeType | None, slot_ns: int, late_ns: int, minor: int
    ) -> None: ...
    def watch(self, most_ns: int, /) -> bool:
        """Sample for at most so long; False: it was told to stop. Deferred collections begin meanwhile."""
    def prompt(self) -> None:
        """Have the calling thread, which is to watch, wake on time; no other thread is changed."""
    def stop(self) -> None: ...
    def fresh(self) -> tuple[list[tuple[str, str, int, bytes, bytes]], int, list[tuple[int, ...]]] | None:
        """What is new: code objects (file, name, first line, lines, bytecode), the number of the first stack, stacks
        (number of code, offset, …)."""
    def name(self, stack: int, id: int, /) -> None:
        """Write this stack with this id; with a negative one not at all."""
    def take(self) -> bytes: ...
    def forget(self) -> None: ...
    def spots(self, thread: int, /) -> tuple[int, ...]:
        """Address of code, offset, …, of a thread that waits, innermost first."""
