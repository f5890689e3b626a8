"""Snapshots of torch's caching allocator: the pickle that `torch.cuda.memory._dump_snapshot()` writes.

The file is a pickle, which in general can run any code. It is read with an unpickler that makes lists, tuples,
dictionaries, strings and numbers only; whatever else a file asks for is refused by name and nothing is run. Packed with
gzip or not.

With `_record_memory_history()` on, a snapshot holds the last allocations and frees with their stacks, and with or
without it all segments and blocks at its end. Both become rows of `memory`: the level at each event follows backwards
from the state at the end. Sizes are as they were asked for. A free counts when it is requested, also where another
stream still uses the block. Blocks that are alive at the end but whose allocation is no longer held are allocated at
the first event, with the category `before the recording` and the stack that the block keeps. Changes of segments are
events of 0 bytes, so reserved memory is exact between allocations too.

Times: `time_us` of the entries, µs since the Unix epoch; older snapshots have none, so their entries are numbered from
0, one ns apart, and this is said. The rank is that of the file's name, else 0.
"""

import re

from stepscope.core.importing import Importer, Sink
from stepscope.core.paths import AnyPath
from stepscope.importers import rank_in_name
from stepscope.importers.memory_snapshot.memory_rows import add_snapshot
from stepscope.importers.memory_snapshot.plain_pickle import load

__all__ = ["IMPORTER"]

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_FIRST_KEY = 64  # bytes: a pickled dictionary begins with a few marks and its first key
_KEYS = (b"segments", b"device_traces", b"allocator_settings", b"external_annotations")


def sniff(path: AnyPath, head: bytes) -> bool:
    """A pickle of a dictionary whose first key is one of a snapshot."""
    return _PICKLE.match(head) is not None and any(key in head[:_FIRST_KEY] for key in _KEYS)


def read(path: AnyPath, sink: Sink) -> None:
    """Fill the tables memory, instants, processes and meta. Raises BadInput if the file holds no snapshot."""
    rank, rank_source = rank_in_name(path)
    add_snapshot(path, load(path), rank, sink)
    sink.row("processes", rank=rank, rank_source=rank_source, framework="torch", source=str(path))


IMPORTER = Importer(sniff=sniff, read=read, clock="the allocator's clock, µs since the Unix epoch, in ns")
