"""Memory and threads of this process: it keeps freed memory, which analyses of a long trace take again at once.

They make and drop arrays as long as the trace, one after the other. The allocators give each of these back to the
system, and get it again page by page, filled with zeros: an eighth of the CPU time of all analyses of 4 million events.
For processes of our own only: each of these holds for the whole process.
"""

import ctypes
import gc
import os

__all__ = ["collect_seldom", "import_arrays", "keep_freed_memory"]

_CONFIGURATION = "_RJEM_MALLOC_CONF"  # of jemalloc as polars is built with it, which reads it when it is imported
# Without the last one, what has more than 8 MB lies apart and is given back at once: a tenth more page faults.
_KEPT = "dirty_decay_ms:10000,muzzy_decay_ms:-1,oversize_threshold:0"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_ONE_THREAD = "OPENBLAS_NUM_THREADS"  # matrices are small here: to start threads for them takes 50 ms of CPU
_COLLECT_EVERY = 200_000  # new objects: more than all imports make, where looking for garbage is a tenth of the time
_NEVER, _LARGEST = 2**31 - 1, 32 << 20  # bytes: the most that mallopt takes


def collect_seldom() -> None:
    """Look for garbage less often than Python does by itself; nearly all that is made here ends by its count."""
    gc.set_threshold(_COLLECT_EVERY)


def import_arrays() -> None:
    """Import polars so that it keeps what it frees, and numpy without threads, unless the user has configured them."""
    given = {name: value for name, value in ((_CONFIGURATION, _KEPT), (_ONE_THREAD, "1")) if name not in os.environ}
    os.environ.update(given)
    try:
        import numpy as np  # noqa: F401
        import polars as pl  # noqa: F401
    finally:
        for name in given:
            del os.environ[name]  # a process that is started from here may have both, too


def keep_freed_memory() -> None:
    """Have numpy's arrays of up to 32 MB made of freed memory, once a trace is read.

    Earlier it would cost more than it saves: reading grows few large arrays, which the system moves without copying.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # glibc
        set_option(_TRIM_THRESHOLD, _NEVER)
        set_option(_MMAP_THRESHOLD, _LARGEST)
