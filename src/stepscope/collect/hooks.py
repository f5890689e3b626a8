"""The functions that take the place of torch's: each calls the original and tells the step clock when.

What the user's code gives and raises passes through unchanged. A call in another thread, a nested call and a stopped
clock go straight to the original.

Where the compiled hooks (native/hooks.c) can be loaded, the function only hands its call to one of them, which does an
ordinary event by itself and calls the Python hook for all others. It is a Python function nevertheless: torch.compile
knows to leave ours alone, but takes a callable of another kind for something else.
"""

from __future__ import annotations

from .compilable import compilable
from .fields import compiled
from .warning_frames import hidden_from_warnings

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .step_clock.clock import LoaderUse, StepClock

__all__ = ["backward_hook", "dressed", "iter_hook", "next_hook", "optimizer_hook"]

_COPIED = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")


@hidden_from_warnings
def next_hook(clock: StepClock, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`original`, the `__next__` of a loader's iterator, timed as data wait."""
    unusual = _python_next(clock, original)
    if compiled is None:
        return dressed(unusual, original)
    quick = compiled.Hook(clock, original, unusual).next

    def __next__(self: Any) -> Any:
        try:
            return quick(self)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise

    return _without_frame(dressed(__next__, original), quick)


@hidden_from_warnings
def _python_next(clock: StepClock, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    ident, begin_fetch, fetched = clock.ident, clock.begin_fetch, clock.fetched

    def __next__(self: Any) -> Any:
        begin = None
        try:
            if ident() != clock.thread or clock.busy:
                return _early_fetch(clock, original, self) if clock.timed_early() else original(self)
            begin = begin_fetch(getattr(self, "_stepscope_use", None))
            batch = original(self)
        except BaseException as error:
            if begin is not None:
                clock.not_fetched(self, begin, error)
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise
        fetched(self, begin, batch)
        return batch

    return __next__


@hidden_from_warnings
def _early_fetch(clock: StepClock, original: Callable[[Any], Any], iterator: Any) -> Any:
    """A fetch while the training thread is unknown: another thread may turn out to be it before this one is back."""
    begin = clock.begin_fetch()
    try:
        batch = original(iterator)
    except BaseException as error:
        if clock.in_training_thread():
            clock.not_fetched(iterator, begin, error)
        raise
    if clock.in_training_thread():
        clock.fetched(iterator, begin, batch)
    return batch


@hidden_from_warnings
def iter_hook(
    clock: StepClock,
    original: Callable[[Any], Any],
    use_of: Callable[[Any], LoaderUse],
    unmarked: Callable[[Any, LoaderUse], Any],
) -> Callable[[Any], Any]:
    """`original`, the `__iter__` of a loader, timed as data wait; its iterator is marked with the loader's use.

    `unmarked(loader, use)` is told of an iterator that takes no mark.
    """

    def known(loader: Any) -> LoaderUse | None:
        try:
            return use_of(loader)
        except Exception as error:
            clock.fail("data loader", error)
            return None

    def __iter__(self: Any) -> Any:
        begin = use = None
        try:
            if (clock.ident() == clock.thread and not clock.busy) or clock.timed_early():
                use = known(self)
            if use is None:
                return original(self)
            begin = clock.begin_fetch(use)
            iterator = original(self)
        except BaseException as error:
            if begin is not None:
                clock.busy = False
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise
        if clock.in_training_thread():
            clock.started(use, begin)
        try:
            iterator._stepscope_use = use
        except Exception:
            unmarked(self, use)  # a generator, say: an iterator inside it may be one that we see
        return iterator

    return dressed(__iter__, original)


@hidden_from_warnings
def backward_hook(clock: StepClock, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, torch.autograd.backward, timed. A backward inside it (reentrant checkpoints) is part of it."""
    unusual = _python_backward(clock, original)
    if compiled is None:
        return dressed(unusual, original)
    quick = compiled.Hook(clock, original, unusual).backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        try:
            return quick(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise

    return _without_frame(dressed(backward, original), quick)


@hidden_from_warnings
def _python_backward(clock: StepClock, original: Callable[..., Any]) -> Callable[..., Any]:
    ident, enter_backward, leave_backward = clock.ident, clock.enter_backward, clock.leave_backward

    def backward(*args: Any, **kwargs: Any) -> Any:
        begin = None
        try:
            if (ident() != clock.thread or clock.busy) and not clock.admits_backward():
                return _helped_backward(clock, original, args, kwargs)
            begin = enter_backward()
            return original(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise
        finally:
            if begin is not None:
                leave_backward(begin)

    return backward


@hidden_from_warnings
def _helped_backward(
    clock: StepClock, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """A backward that is no event of the training thread: the thread may wait for it all the same."""
    begun = clock.helper_begins()
    if begun is None:
        return original(*args, **kwargs)
    try:
        return original(*args, **kwargs)
    finally:
        clock.helper_ended(begun)


def optimizer_hook(clock: StepClock, original: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, an optimizer's `step` in torch's own profiling wrapper around `inner`, timed.

    torch asks for it when the first optimizer of a class is made.
    """
    clock.optimizer_made()
    unusual = _python_step(clock, original)
    if compiled is None:
        hook = dressed(unusual, original)
    else:
        quick = compiled.Hook(clock, original, unusual).step

        hook = _without_frame(dressed(compilable(quick, original), original), quick)
    hook.__wrapped__ = inner  # type: ignore[attr-defined]  # old versions of torch.compile unwrap one layer here
    return hook


@hidden_from_warnings
def _python_step(clock: StepClock, original: Callable[..., Any]) -> Callable[..., Any]:
    ident, enter_step, leave_step = clock.ident, clock.enter_step, clock.leave_step

    def step(*args: Any, **kwargs: Any) -> Any:
        begin = None
        try:
            if (ident() != clock.thread or clock.busy) and not clock.admits_step():
                return original(*args, **kwargs)
            begin = enter_step()
            result = original(*args, **kwargs)
        except BaseException as error:
            if begin is not None:
                leave_step(None, begin)
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]  # not this frame
            raise
        leave_step(args[0], begin)
        return result

    return step


def _without_frame(hook: Callable[..., Any], quick: Callable[..., Any]) -> Callable[..., Any]:
    """`hook`, a Python function that hands its arguments to `quick`, which is called instead of it where that can be:
    tracebacks and warnings then look as they do without us."""
    compiled.without_frame(hook, quick)
    return hook


def dressed(hook: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """`hook` with the name, the documentation, the attributes and (by `__wrapped__`) the signature of `original`."""
    for name in _COPIED:
        try:
            setattr(hook, name, getattr(original, name))
        except AttributeError:
            pass
    hook.__dict__.update(getattr(original, "__dict__", {}))
    hook.__wrapped__ = original  # type: ignore[attr-defined]
    return hook
