"""Files that people point at by mistake, told by their first bytes or their name: what they are, and what to do."""

import re
from pathlib import Path

from stepscope.core.paths import AnyPath

__all__ = ["foreign"]

_OF_A_RUN = (b"STEPSCOPE-", re.compile(rb'^\s*\{\s*"format":\s*"stepscope-run"'))
_READS = "this version reads traces of torch.profiler"
_BY_CONTENT = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"BM", "a BMP picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a ZIP archive, as torch.save writes it"),
    (b"SQLite format 3\x00", f"an SQLite database, as Nsight Systems exports it; {_READS}"),
    (b"\x89HDF", "an HDF5 file"),
    (b"PAR1", "a Parquet file"),
)
_UNPACK = "Unpack it: `{program} {path}`, then open what comes out of it."
_PACKED = (
    (b"BZh", "a file packed by bzip2", "bunzip2 -k"),
    (b"\xfd7zXZ\x00", "a file packed by xz", "unxz -k"),
    (b"\x28\xb5\x2f\xfd", "a file packed by Zstandard", "unzstd"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "7z x"),
)
_TAR, _TAR_AT = b"ustar", 257
_OF_PADDLE = re.compile(rb'"(?:span_index|ExtraInfo)"\s*:')
_RUN_IT = "To record what it does: `stepscope run -- {program} {path}`."
_OPEN_INSTEAD = "Open a run folder or a trace. To record one: `stepscope run -- COMMAND`."
_OF_NSYS = "See its tables with `nsys stats {path}`. To record the job with stepscope: `stepscope run -- COMMAND`."
_BY_NAME = {
    ".py": ("a Python script", _RUN_IT.replace("{program}", "python")),
    ".sh": ("a shell script", _RUN_IT.replace("{program}", "bash")),
    ".nsys-rep": ("a report of Nsight Systems", _OF_NSYS),
    ".qdrep": ("a report of Nsight Systems", _OF_NSYS),
    ".ncu-rep": (
        "a report of Nsight Compute",
        "Open it with `ncu-ui {path}`. To record the whole job: `stepscope run -- COMMAND`.",
    ),
    ".csv": ("a table of values", _OPEN_INSTEAD),
    ".xplane.pb": ("a profile of XLA (JAX or TensorFlow) as protocol buffers", ""),
    ".pb": (
        "protocol buffers, such as a model or a graph",
        "Profiles of XLA end in .xplane.pb. To record a job of PyTorch: `stepscope run -- COMMAND`.",
    ),
    ".svg": ("a picture", _OPEN_INSTEAD),
    ".ipynb": (
        "a Jupyter notebook",
        "Turn it into a script with `jupyter nbconvert --to script {path}`, then `stepscope run -- python SCRIPT.py`.",
    ),
}


def foreign(path: AnyPath, start: bytes) -> tuple[str, str] | None:
    """What a file is and the next step, if it is of a common kind that holds no trace; `start` is how it begins."""
    marker, described = _OF_A_RUN
    if start.startswith(marker) or described.match(start):
        return "a part of a run folder, not a trace", f"Open the folder: `stepscope report {_run_of(path)}`."
    if found := _packed(path, start):
        return found
    for magic, kind in _BY_CONTENT:
        if start.startswith(magic):
            return f"not JSON but {kind}", _OPEN_INSTEAD
    for ending, (kind, advice) in _BY_NAME.items():
        if path.name.endswith(ending):
            return f"{kind}, not a trace", advice.replace("{path}", str(path)) or _beside(path)
    if start.lstrip()[:1] == b"{" and _OF_PADDLE.search(start):
        return f"a trace of Paddle's profiler; {_READS}", _OPEN_INSTEAD
    return ("not JSON but a binary file", _OPEN_INSTEAD) if b"\x00" in start and not _is_utf16(start) else None


def _packed(path: AnyPath, start: bytes) -> tuple[str, str] | None:
    """An archive, or a file packed by anything but gzip, and the command that unpacks it."""
    known = [(kind, program) for magic, kind, program in _PACKED if start.startswith(magic)]
    if start[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        known.append(("a tar archive", "tar -xf"))
    if not known:
        return None
    kind, program = known[0]
    return f"{kind}, not a trace", _UNPACK.replace("{program}", program).replace("{path}", str(path))


def _beside(path: AnyPath) -> str:
    """The trace that JAX writes beside such a profile, if it did; what else reads it."""
    traces = sorted(path.parent.glob("*.trace.json*")) if isinstance(path, Path) else []
    if traces:
        return f"Open the trace beside it: `stepscope report {traces[0]}`."
    return f"There is no trace beside it. XProf reads it: `pip install xprof`, then `xprof {path.parent}`."


def _is_utf16(start: bytes) -> bool:
    return start[:2] in (b"\xff\xfe", b"\xfe\xff")


def _run_of(path: AnyPath) -> AnyPath:
    """The run folder that a file lies in, or in a process' folder of."""
    folder = path.parent
    return folder.parent if folder.name.startswith("rank-") else folder
