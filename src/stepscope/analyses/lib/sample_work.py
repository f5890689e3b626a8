"""What a stack sample was doing: loading, computing the model, work of the host, or unclear.

The sampler sees Python frames, not operators. An operator of torch called straight from the user's code
(`torch.conv2d(x, w)`, `x @ w`) has no frame of its own, so the frame of the user is the innermost one just as it is
in a loop of pure Python. A wrong line is worse than none, so only what is certain counts as host work:

- input: phase data_wait, or a call into torch.utils.data: the loader, of whichever data set.
- collector: Python's garbage collector was running.
- model: the innermost frame, or the library frame below the user's, is torch code that computes or dispatches
  (torch.nn, torch.autograd, torch.optim, …), or the expression being called starts at torch, nn or F. The framework's
  own Python counts here too: no line of the user's could remove it. So does `forward` of a library's model in phase
  `other`, as when a framework validates.
- host: torch code that writes, reads or prints (torch.save), or compiles, the standard library, or a library that
  computes no model (PIL, numpy, matplotlib, loggers); an expression that calls one of these or a built-in function
  (`open`, `print`, `sorted`, `time.sleep`), or that is a bare name: there the interpreter itself was at work, which
  keeps its lock for 5 ms before a sampler gets in between, while every operator lets it in at once; in phase `other`,
  which is outside forward, backward and optimizer, any further line of the user's, because there it delays the next
  step whatever it does. Where a GPU computes, such a line may be waiting for it (`loss.item()`), so it counts there
  only if nothing about it can wait for a device.
- unclear: the rest, above all lines inside `forward` without a frame below. `host_lines` decides about them from the
  time between operators in a traced window.
"""

import re
import sys
from collections.abc import Sequence

import polars as pl

from stepscope.analyses.lib.compiler_frames import COMPILER
from stepscope.analyses.lib.result_tables import RECORD_TRACE_ON_GPU
from stepscope.core.errors import DEVICE_WORK, MissingData
from stepscope.core.run import Run, chain

__all__ = ["gpu_ranks", "has_gpu", "need_gpu", "with_work"]

# Parts of torch that handle files, processes or text. They compute no model, whatever the phase.
_TORCH_HOST = re.compile(
    r"^torch/(serialization|_tensor_str|storage|multiprocessing|hub|package|onnx"
    r"|utils/tensorboard|utils/_?collect_env|distributed/checkpoint)\b"
)
_TORCH_DATA = re.compile(r"^torch/utils/data/")
_TORCH = re.compile(r"^(torch|functorch)/")

# The compiler at work, what it asks for algebra, and its wait for processes that compile.
_COMPILES = re.compile(COMPILER + r"|^sympy/|^threading\.py:\d+ wait$")

# Libraries that compute no model on the training thread; every other library may be one that holds models.
_HELPERS = re.compile(
    r"PIL|boto3|botocore|cv2|h5py|imageio|matplotlib|mlflow|numpy|orjson|pandas|psutil|pyarrow|requests|rich|skimage"
    r"|sklearn|sqlalchemy|tensorboard|tensorboardX|tqdm|ujson|urllib3|wandb|yaml|zmq"
)
_ALIASES = re.compile(r"np|plt|pd|sns|cv")
_BUILTINS = re.compile(
    r"open|print|sorted|list|dict|set|tuple|range|enumerate|zip|map|filter|repr|str|format|hash|isinstance|getattr"
    r"|setattr|hasattr|input|eval|exec|compile"
)
_MODEL_ROOTS = re.compile(r"torch|nn|F|functional")
_CALLED = re.compile(r"^\(?\s*([A-Za-z_]\w*)\s*([.(])")

# What may wait for a device: reading a value back, a copy, a branch on a tensor, a value shown as text.
_WAITS = re.compile(
    r"\.(item|tolist|cpu|numpy|to|cuda|nonzero|synchronize|wait)\(|\b(float|int|bool|print|if|while|assert)\b"
)

_LAUNCHES = r"Launch|Memcpy|Memset"  # of calls of a device's runtime: asking for its properties puts nothing on it
_KEY = ["phase", "collector", "call", "leaf", "expression", "text", "on_gpu", "in_forward"]


def has_gpu(run: Run) -> bool:
    """True if the run names an accelerator, or holds work, times or launches of one."""
    return bool(gpu_ranks(run))


def need_gpu(run: Run) -> None:
    """Raise MissingData if the run shows nothing of an accelerator."""
    if not has_gpu(run):
        raise MissingData(DEVICE_WORK, how=f"not needed for a job on the CPU; else {RECORD_TRACE_ON_GPU}")


def gpu_ranks(run: Run) -> tuple[int, ...]:
    """The ranks for which the run names an accelerator, or holds work, times or launches of one."""
    return run.per_rank(_gpu_ranks, chain)


def _gpu_ranks(run: Run) -> tuple[int, ...]:
    timed = run.optional("steps", "rank", "device_duration").drop_nulls("device_duration")
    calls = run.where("host", pl.col("kind").is_in(["runtime", "driver"]), "rank", "name")
    launches = calls.filter(pl.col("name").str.contains(_LAUNCHES))
    unused = set(calls["rank"]) - set(launches["rank"])  # its runtime was watched, and nothing was put on the device
    named = run.optional("devices", "rank").filter(~pl.col("rank").is_in(unused))
    places = (named, run.optional("device", "rank"), timed, launches)
    return tuple(pl.concat([rows["rank"].unique() for rows in places]).drop_nulls().unique().sort())


def with_work(samples: pl.DataFrame, *, gpu: Sequence[int]) -> pl.DataFrame:
    """Add the column `work` to rows of `stacks`: input, collector, model, host or unclear; `gpu` are ranks with one."""
    # cast: of lists that are all empty polars may have forgotten the type
    passes = pl.col("between").list.eval(pl.element().cast(pl.String).str.ends_with(".forward")).list.any()
    in_forward = (passes | pl.col("leaf").str.ends_with(" forward")).fill_null(False)
    placed = samples.with_columns(on_gpu=pl.col("rank").is_in(gpu), in_forward=in_forward)
    kinds = placed.select(_KEY).unique(maintain_order=True)
    works = [_work(*row) for row in kinds.iter_rows()]
    kinds = kinds.with_columns(pl.Series("work", works, dtype=pl.String))
    return placed.join(kinds, on=_KEY, how="left", nulls_equal=True, maintain_order="left").drop("on_gpu", "in_forward")


def _work(
    phase: str | None, collector: bool | None, call: str | None, leaf: str | None, expression: str | None,
    text: str | None, gpu: bool, in_forward: bool,
) -> str:  # fmt: skip
    if collector:
        return "collector"
    if phase == "data_wait" or _TORCH_DATA.match(call or ""):
        return "input"
    known = _of_frames(call, leaf) or _of_expression(call, expression)
    if known:
        return known
    if phase == "other" and in_forward:
        return "model"
    if phase == "other" and not (gpu and _WAITS.search(expression or text or "")):
        return "host"
    return "unclear"


def _of_frames(call: str | None, leaf: str | None) -> str | None:
    """What the frames below the user's tell; None if there are none, or only ones that could do anything."""
    if call is None:
        return None
    frames = (call, leaf or call)
    if any(_TORCH_HOST.match(frame) for frame in frames) or _COMPILES.search("\n".join(frames)):
        return "host"
    if any(_TORCH.match(frame) for frame in frames):
        return "model"
    return "host" if _HELPERS.fullmatch(_package(call)) or _is_standard(call) else None


def _of_expression(call: str | None, expression: str | None) -> str | None:
    if call is not None or expression is None:
        return None
    if expression.isidentifier():
        return "host"
    called = _CALLED.match(expression)
    if not called:
        return None
    root, then = called.groups()
    if _MODEL_ROOTS.fullmatch(root):
        return "model"
    if then == "(":
        return "host" if _BUILTINS.fullmatch(root) else None
    helper = _HELPERS.fullmatch(root) or _ALIASES.fullmatch(root)
    return "host" if helper or root in sys.stdlib_module_names else None


def _package(frame: str) -> str:
    """First folder, or module, of a library path: `PIL/Image.py:70 open` is of PIL."""
    return frame.split(":", 1)[0].split("/", 1)[0].removesuffix(".py")


def _is_standard(frame: str) -> bool:
    path = frame.split(":", 1)[0]
    in_library = re.search(r"/python3\.\d+/(?!site-packages|dist-packages)", path)
    return bool(in_library) or path.startswith("<frozen ") or _package(frame) in sys.stdlib_module_names
