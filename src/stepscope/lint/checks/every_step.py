"""A call meant for occasional use is in every training step.

`gc.collect()` traverses all Python objects. `torch.cuda.empty_cache()` releases memory that the next step requests
again. `torch.cuda.synchronize()` stops the host until the device is idle. `torch.save()` writes a checkpoint.
`savefig()` draws a figure. `copy.deepcopy()` copies every weight.
"""

from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, dotted

__all__ = ["CHECK"]

_CALLS = {
    "gc.collect": ("collects garbage", "remove it, or call it once per epoch"),
    "torch.cuda.empty_cache": ("gives memory back that the next step needs", "remove it"),
    "torch.cuda.synchronize": ("stops the host until the device is idle", "remove it"),
    "torch.save": ("writes a checkpoint", "if step % 1000 == 0:  # save there"),
    "plt.savefig": ("draws a figure", "if step % 1000 == 0:  # draw there"),
    "copy.deepcopy": ("copies its argument", "if better:  # copy there"),
    "deepcopy": ("copies its argument", "if better:  # copy there"),
}


def find(script: Script) -> Iterator[Hit]:
    for call in script.step_calls:
        told = _CALLS.get(dotted(call.func))
        if told is not None:
            what = f"`{script.code(call)}` {told[0]} in every step"
            yield hit_at(call, what, told[1])


CHECK = Check(
    find=find,
    example="""\
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    gc.collect()
""",
    fixed="""\
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
gc.collect()
""",
)
