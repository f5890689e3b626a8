"""What is compiled: the scanner of trace JSON, and loops over arrays of times, such as the algebra of intervals.

Optional: `pip install` builds the module `_scanner` where there is a C++ compiler; without it Python and numpy do the
same. It is described in `_scanner.pyi`; whoever uses it asks `COMPILED` first.
"""

from importlib.util import find_spec

__all__ = ["COMPILED"]

COMPILED = find_spec("stepscope.native._scanner") is not None
"""Whether the module was built."""
