"""Watches calls with the compiled part that is given, and asserts what comes out. Runs in any Python from 3.9 on."""

# mypy: ignore-errors

import contextlib
import importlib.util
import os
import sys
import threading
import types
import zlib

spec = importlib.util.spec_from_file_location("native_hooks", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)

CALL, ENTERS, LEAVES = range(3)
TRANSFORM, DECODE, LABEL = 12, 13, 15
NAME = 5  # in a span
told = []


def ask(stage, name, frame, function=None, arguments=None):
    if frame is not None:
        held = frame.f_locals
        arguments = tuple(held.values())
        if type(held) is dict:
            held.clear()
    else:
        assert function in (inner, varied) or function.__name__ == "counting", function
    simple = [one if type(one) in (int, str, tuple) else None for one in arguments]
    told.append(("ask", stage, name, tuple(simple)))
    return 7, 70, (1,)


def label(entered, frame, arguments=None):
    assert arguments is None or type(arguments[0]) is Labeled
    told.append(("label", entered, (frame.f_back if arguments is None else frame).f_code.co_name))


def watch(ask=ask):
    made = native.Watch(ask, lambda *given: told.append(given), label, lambda rows: told.append(len(rows)), GENERATOR)
    return made, made.stop


GENERATOR = types.GeneratorType


def inner(x):
    return x + 1


def varied(*things, key=None):
    return things, key


def outer(x):
    return inner(x)


def raising(x):
    raise ValueError(x)


def nested(times):
    return nested(times - 1) if times else 0


def produced(number):
    return (one for one in range(number))


def setting(function):
    sys.setprofile(function)


class Labeled:
    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return None


def own(frame, event, arg):
    return None


def made():
    every, its_stop = watch()
    every.add(inner.__code__, CALL, TRANSFORM, 3, 1, 0)
    for number, function in enumerate((outer, raising, nested, produced, setting), 11):
        every.add(function.__code__, CALL, TRANSFORM, number, 0, 0)
    every.add(zlib.crc32, CALL, DECODE, -1, 0, 0)
    every.add(Labeled.__enter__.__code__, ENTERS, LABEL, 0, 0, 0)
    every.add(Labeled.__exit__.__code__, LEAVES, LABEL, 0, 0, 0)
    return every, its_stop


watched, stop = made()


def names(rows):
    return [row[NAME] for row in rows]


def spans_of_every_kind():
    assert watched.start(stop, FRAMES, True)
    assert sys.getprofile() is None, "nobody sees that it is there"
    outer(1)
    inner(2)
    with contextlib.suppress(ValueError):
        raising(1)
    nested(100)
    produced(3)
    zlib.crc32(b"x")
    with Labeled():
        pass
    thread = threading.Thread(target=outer, args=(1,))
    thread.start()
    thread.join()
    events, rows = watched.events, stop()
    assert events > 100 and bool(watched.frames) == FRAMES
    of_c = [] if FRAMES else [-1]
    assert names(rows) == [7, 11, 3, 12, *[13] * 64, *of_c], names(rows)  # of deep recursion the outermost
    assert rows[0][4] == 70 and all(row[1] <= row[2] and row[3] >= 0 for row in rows)
    function = spans_of_every_kind.__name__
    assert told == [("ask", TRANSFORM, 3, (1,)), (7, (1,), 2), ("label", True, function), ("label", False, function)]


def what_the_job_sets_stays():
    assert watched.start(stop, FRAMES, True)
    outer(1)
    sys.setprofile(own)
    outer(1)
    assert names(stop()) == [3, 11] * (1 + FRAMES) and sys.getprofile() is own
    sys.setprofile(None)
    assert watched.start(stop, FRAMES, True)
    setting(own)
    outer(1)
    assert names(stop()) == [15, 3, 11] * FRAMES and sys.getprofile() is own
    sys.setprofile(None)
    assert watched.start(stop, FRAMES, True)
    sys.setprofile(None)
    outer(1)
    assert names(stop()) == [3, 11] * FRAMES and sys.getprofile() is None


def two_threads():
    """What one of them ends is no end for the other."""
    started, ended = threading.Event(), threading.Event()

    def other():
        second, its_stop = watch()
        second.add(raising.__code__, CALL, TRANSFORM, 9, 0, 0)
        assert second.start(its_stop, FRAMES, True)
        started.set()
        ended.wait()
        with contextlib.suppress(ValueError):
            raising(1)
        found.extend(names(its_stop()))

    found = []
    thread = threading.Thread(target=other)
    thread.start()
    started.wait()
    assert watched.start(stop, FRAMES, True)
    outer(1)
    assert names(stop()) == [3, 11]
    ended.set()
    thread.join()
    assert found == [9]


def any_arguments():
    second, its_stop = watch()
    second.add(varied.__code__, CALL, TRANSFORM, 3, 9, 0)
    assert second.start(its_stop, FRAMES, True)
    told.clear()
    assert varied("a", "b", "c", key=1) == (("a", "b", "c"), 1)
    assert names(its_stop()) == [7]
    if told[0][3][0] == "a":  # else from the frame: Python tells them apart
        assert told[0][3][:2] == ("a", "b")


def one_watch_a_thread():
    second, its_stop = watch()
    assert watched.start(stop, FRAMES, True)
    assert not second.start(its_stop, FRAMES, True)
    assert its_stop() == []
    outer(1)
    assert names(stop()) == [3, 11]


def many_spans():
    assert watched.start(stop, FRAMES, True)
    for _ in range(5000):
        inner(1)
    assert len(stop()) == 5000 - 4096 and told[-1] == 4096


def failures(error, passes):
    def failing(*given):
        raise error

    broken, its_stop = watch(failing)
    broken.add(inner.__code__, CALL, TRANSFORM, 3, 9, 0)
    assert broken.start(its_stop, FRAMES, True)
    try:
        inner(1)
        assert not passes
    except KeyboardInterrupt:
        assert passes
    assert its_stop() == [] and sys.getprofile() is None


def a_forked_child():
    assert watched.start(stop, FRAMES, True)
    child = os.fork()
    if not child:
        native.unwatch()
        outer(1)
        os._exit(len(stop()))
    assert os.waitpid(child, 0)[1] == 0
    outer(1)
    assert names(stop()) == [3, 11]


def nothing_is_kept():
    class Held:
        pass

    held = Held()

    def counting(x):
        del x
        return sys.getrefcount(held)

    before = counting(held), sys.getrefcount(held)
    counted, its_stop = watch()
    counted.add(counting.__code__, CALL, TRANSFORM, 3, 9, 0)
    assert counted.start(its_stop, FRAMES, True)
    seen = counting(held)
    assert names(its_stop()) == [7]
    told.clear()
    assert sys.getrefcount(held) == before[1]
    assert seen - before[0] in (0, FRAMES), "while frames are watched, who calls keeps its arguments until the return"


for FRAMES in (True, False):  # noqa: B007  # the functions above go by it
    told.clear()
    spans_of_every_kind()
    what_the_job_sets_stays()
    one_watch_a_thread()
    two_threads()
    any_arguments()
    many_spans()
    failures(KeyboardInterrupt, True)
    failures(ValueError, False)
    a_forked_child()
    nothing_is_kept()
    watched, stop = made()
print("done")
