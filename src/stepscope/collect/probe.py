"""Waits for torch to be imported and hooks the few entry points from which training steps can be told.

Only `arm` runs in every Python process of the job; all else is imported when torch is.
"""

from __future__ import annotations

import os
import sys

from ..run_format.files import PROCESSES, RUN_DIR

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..run_format.options import RecordingOptions

__all__ = ["arm"]


def arm() -> bool:
    """Make ready for the import of torch; returns whether this process is to be recorded."""
    run_dir = os.environ.get(RUN_DIR)
    if not run_dir or any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return False
    sys.meta_path.insert(0, _Finder(run_dir))
    return True


class _Finder:
    """Finds no module: it lets the others find, and has a module that is waited for hooked once it has been run."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._probe: _Probe | None = None
        self._awaited = {
            "torch.autograd": "autograd",
            "torch.utils.data.dataloader": "loader",
            "torchdata.stateful_dataloader.stateful_dataloader": "stateful_loader",
            "torch.optim.optimizer": "optimizer",
            "torch._dynamo.trace_rules": "compiler",
            "torch._dynamo.skipfiles": "compiler",
            "torch._dynamo.eval_frame": "compiled_frames",
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._awaited:
            return None
        part = self._awaited.pop(name)
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                self._follow(spec, part)
                return spec
        return None

    def _follow(self, spec: Any, part: str) -> None:
        """Have `part` hooked after the module's own code has run. The module keeps its spec and its loader."""
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            try:
                del spec.loader.exec_module
            except AttributeError:
                pass
            run(module)
            self._hook(part, module)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError as error:
            self._complain(part, error)

    def _hook(self, part: str, module: Any) -> None:
        try:
            if self._probe is None:
                self._probe = _Probe(self._run_dir)
            getattr(self._probe, part)(module)
        except Exception as error:
            self._complain(part, error)

    def _complain(self, part: str, error: Exception) -> None:
        try:
            from .recorder import leave_note

            leave_note(self._run_dir, f"steps of process {os.getpid()} ({part})", error)
        except Exception:
            return


class _Probe:
    """The clock of this process and the hooks that feed it."""

    def __init__(self, run_dir: str) -> None:
        import stepscope

        from . import hooks, loader_call_site
        from .session import Session
        from .step_clock.marks import mark_step

        self._hooks, self._run_dir = hooks, run_dir
        self._call_site, self._makers = loader_call_site, loader_call_site.Makers()
        session = Session(run_dir, _grad_enabled())
        self._clock, self._registry, self._learn = session.clock, session.registry, session.learn
        stepscope._mark = lambda: mark_step(self._clock)
        self._overrides: Any = None
        self._loading: Any = None
        os.register_at_fork(after_in_child=session.forked)
        _announce(run_dir)

    def autograd(self, module: Any) -> None:
        module.backward = self._hooks.backward_hook(self._clock, module.backward)

    def loader(self, module: Any) -> None:
        iterator, loader = module._BaseDataLoaderIter, module.DataLoader
        options = _options()
        if options.calibration:
            from . import calibration

            iterator.__next__ = calibration.next_hook(calibration.Calibration(self._learn), iterator.__next__)
        iterator.__next__ = self._hooks.next_hook(self._clock, iterator.__next__)
        self._hook_loader(loader)
        asked = options.loader
        if asked == "off":
            return
        from .dataloader.hooks import install

        lines_hz, source = options.loader_lines_hz, options.source
        self._loading = install(module, self._run_dir, self._registry.known, asked == "all", lines_hz, source)

    def stateful_loader(self, module: Any) -> None:
        self._hook_loader(module.StatefulDataLoader)
        if self._loading is not None:
            from .dataloader.hooks import install_stateful

            install_stateful(module, self._loading)

    def _hook_loader(self, loader: Any) -> None:
        loader.__iter__ = self._hooks.iter_hook(
            self._clock, loader.__iter__, self._registry.use_of, self._registry.unmarked
        )
        loader.__init__ = self._call_site.init_hook(loader.__init__, self._makers)
        wanted = _options().overrides
        if wanted is None:
            return
        from . import overrides

        if self._overrides is None:
            self._overrides = overrides.Overrides(wanted, self._learn, self._registry.known)
        loader.__iter__ = overrides.iter_hook(self._overrides, loader.__iter__, self._registry.forget)

    def optimizer(self, module: Any) -> None:
        """Around torch's own wrapper: the step then ends outside torch's `Optimizer.step` annotation."""
        from .guards import own_errors

        wrap = module.Optimizer.profile_hook_step
        clock, optimizer_hook = self._clock, self._hooks.optimizer_hook

        def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
            wrapped: Callable[..., Any] = wrap(func)
            try:
                hooked: Callable[..., Any] = optimizer_hook(clock, wrapped, func)
                return hooked
            except own_errors() as error:  # the job makes its optimizer
                clock.fail("optimizer", error)
                return wrapped

        profile_hook_step.__doc__ = wrap.__doc__
        module.Optimizer.profile_hook_step = staticmethod(profile_hook_step)

    def compiler(self, module: Any) -> None:
        from .compilable import keep_compiler_out

        keep_compiler_out(module)

    def compiled_frames(self, module: Any) -> None:
        """The one that torch.compile may look into is not to be compiled by itself."""
        from .compilable import run_as_it_is

        if hasattr(module, "skip_code"):  # older torch compiles it, to the same effect
            run_as_it_is(module)


def _grad_enabled() -> Callable[[], bool]:
    core = sys.modules.get("torch._C")
    return getattr(core, "is_grad_enabled", None) or (lambda: True)


def _options() -> RecordingOptions:
    """What the launcher was asked to record."""
    from ..run_format.options import RecordingOptions  # not at the top: only a process with torch reads it

    return RecordingOptions.from_environment()


def _announce(run_dir: str) -> None:
    """One line for each Python process that imports torch, so that a rank that never steps is still known."""
    import time

    from .facts import torch_version
    from .recorder import append_line
    from .secrets import redacted

    row = {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "argv": redacted(getattr(sys, "argv", [])),
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "executable": sys.executable,
        "torch": torch_version(),
        "epoch_ns": time.time_ns(),
    }
    try:
        append_line(os.path.join(run_dir, PROCESSES), row)
    except OSError:
        return
