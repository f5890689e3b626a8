"""Which running job a command is about: a process, or the folder of one that is recorded."""

from pathlib import Path
from typing import NamedTuple

__all__ = ["Target", "job_target"]


class Target(NamedTuple):
    """The process at the top of the tree, None for the whole machine, and the folder of a recorded job."""

    pid: int | None
    folder: str | None


def job_target(target: str | None, command: str) -> Target:
    """What `stepscope COMMAND TARGET` means. Raises BadInput for what does not run, or not any more."""
    from stepscope.core.errors import BadInput

    if not Path("/proc/self/stat").exists():
        raise BadInput("this system", f"has no /proc, which `stepscope {command}` reads", next_step="use it on Linux")
    if target is None:
        return Target(None, None)
    if target.isdecimal() and not Path(target).exists():
        if not Path(f"/proc/{target}").exists():
            raise BadInput(f"process {target}", "there is none here", next_step="`stepscope top` shows those there are")
        return Target(int(target), None)
    return Target(_launcher(target, command), target)


def _launcher(folder: str, command: str) -> int:
    """The process that records a job, if it still runs. Raises BadInput."""
    import json

    from stepscope.core.errors import BadInput
    from stepscope.observe.process_tree import read_tree
    from stepscope.run_format.files import RUN

    try:
        launcher = json.loads((Path(folder) / RUN).read_text(encoding="utf-8"))["launcher"]
        pid, ticks = int(launcher["pid"]), int(launcher["start_ticks"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = "is no process and no folder of a recorded job"
        raise BadInput(folder, why, next_step=f"`stepscope {command} PID`; `stepscope top` shows processes") from error
    if not any(one.pid == pid and one.started == ticks for one in read_tree(pid)):
        raise BadInput(folder, "this job has ended", next_step=f"stepscope report {folder}")
    return pid
