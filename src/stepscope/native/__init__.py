"""What is compiled: the scanner of trace JSON, the loop over nested ranges and the walk of critical paths. Optional.

`pip install` builds the module `_scanner` where there is a C++ compiler; without it Python does all three. It is
described in `_scanner.pyi`; whoever uses it asks `COMPILED` first.
"""

from importlib.util import find_spec

__all__ = ["COMPILED"]

COMPILED = find_spec("stepscope.native._scanner") is not None
"""Whether the module was built."""
