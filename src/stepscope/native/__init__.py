"""What is compiled: the scanner of trace JSON, and loops over arrays of times, such as the algebra of intervals.

`pip install` builds the module `_scanner`, which `_scanner.pyi` describes. Whatever reads a run needs it; recording a
job does not.
"""

from importlib.util import find_spec

_MISSING = """stepscope's compiled part is missing: recording works, reports need it
install a C++ compiler (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install)
then: pip install --force-reinstall --no-deps --no-binary stepscope stepscope"""

if find_spec("stepscope.native._scanner") is None:
    raise ImportError(_MISSING, name=__name__)
