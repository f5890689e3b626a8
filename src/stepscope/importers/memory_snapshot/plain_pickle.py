"""Read a pickle of plain data without running anything in it."""

import gc
import gzip
import io
import pickle
import zlib

from stepscope.core.errors import BadInput
from stepscope.core.paths import AnyPath, look_again

__all__ = ["AGAIN", "load"]

AGAIN = (
    "Write it again with torch.cuda.memory._dump_snapshot(), or record the job with "
    "`stepscope run --trace 10:13 --with memory -- COMMAND`."
)
"""What to do about a file that cannot be read."""

_GZIP = b"\x1f\x8b"
# What the unpickler of the standard library raises for bytes that are no pickle, besides its own error.
_DAMAGE = (
    pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError,
    MemoryError, RecursionError, zlib.error,
)  # fmt: skip


class _Refused(pickle.UnpicklingError):
    """The file asks for something that is not plain data."""


class _Plain(pickle.Unpickler):
    """Makes lists, tuples, dictionaries, sets, strings and numbers: every other object needs one of these two."""

    def find_class(self, module: str, name: str, /) -> object:
        raise _Refused(f"{module}.{name}")

    def persistent_load(self, pid: object, /) -> object:
        raise _Refused(f"a persistent object {pid!r:.60}")


def load(path: AnyPath) -> object:
    """The plain data in a pickle, packed with gzip or not. Raises BadInput for anything else."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        why = (error.strerror or "it cannot be read").lower()
        raise BadInput(path, why, next_step=look_again(path)) from error
    was_enabled = gc.isenabled()
    gc.disable()  # millions of new containers without a cycle among them: looking for one takes most of the time
    try:
        return _Plain(io.BytesIO(gzip.decompress(raw) if raw.startswith(_GZIP) else raw)).load()
    except _Refused as error:
        why = f"the pickle asks for {error}, which a memory snapshot never holds: nothing of it was run or read"
        raise BadInput(path, why, next_step=AGAIN) from error
    except (*_DAMAGE, gzip.BadGzipFile) as error:
        raise BadInput(path, f"not a whole pickle ({error or type(error).__name__})", next_step=AGAIN) from error
    finally:
        if was_enabled:
            gc.enable()
