"""What is compiled: the scanner of trace JSON and the loop over nested ranges. Optional; without it Python does both.

`pip install` builds the module `_scanner` where there is a C++ compiler. Its classes are described in `_scanner.pyi`;
whoever uses them asks `COMPILED` first.
"""

from importlib.util import find_spec

__all__ = ["COMPILED"]

COMPILED = find_spec("stepscope.native._scanner") is not None
"""Whether the module was built."""
