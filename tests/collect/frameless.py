"""Run by every Python there is: hooks that make no frame behave as functions do. argv: the folder of the package."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,type-arg"

import gc
import sys
import traceback
import types

sys.path.insert(0, sys.argv[1])
stepscope = types.ModuleType("stepscope")
stepscope.__path__ = [sys.argv[1] + "/stepscope"]
sys.modules["stepscope"] = stepscope

from stepscope.collect.fields import compiled  # noqa: E402

if compiled is None:
    print("no compiled hooks")
    raise SystemExit


def call(*args, **kwargs):
    if args[1:] == ("raise",):
        raise ValueError("broken")
    return args, kwargs


def made():
    def step(*args, **kwargs):
        return call(*args, **kwargs)

    assert compiled.without_frame(step, call)
    return step


class Holder:
    step = made()
    __next__ = made()

    def __iter__(self):
        return self


holder = Holder()
for number in range(2000):  # past every specialization of the interpreter
    assert holder.step(number, name=number) == ((holder, number), {"name": number})
    assert Holder.step(holder) == ((holder,), {})
    assert holder.step(*(1, 2), a=3) == ((holder, 1, 2), {"a": 3})
    assert next(holder) == ((holder,), {})
for batch in holder:
    assert batch == ((holder,), {})
    break
try:
    holder.step("raise")
except ValueError:
    depth = len(traceback.extract_tb(sys.exc_info()[2]))
for _ in range(1000):
    made()(1)
gc.collect()
print("frames", depth, types.FunctionType is type(Holder.step), Holder.step.__code__.co_name)
