"""An importer of another distribution: its files are found in a folder by its names, and it must tell the rank."""

import subprocess
import sys
from pathlib import Path

IMPORTER = '''"""Spans: one line each, `name start end`."""

from stepscope.core.importing import Importer
from stepscope.importers import rank_in_name


def read(path, sink):
    rank, rank_source = rank_in_name(path)
    lines = [line.split() for line in path.read_text().splitlines()[1:]]
    names, starts, ends = zip(*lines)
    times = {"start": [int(start) for start in starts], "end": [int(end) for end in ends]}
    sink.add("host", {"rank": [rank] * len(lines), "name": names, "kind": ["annotation"] * len(lines), **times})
    if TELLS_RANK:
        sink.row("processes", rank=rank, rank_source=rank_source, source=str(path))


IMPORTER = Importer(
    sniff=lambda path, head: head.startswith(b"SPANS"), read=read, clock="ns since the Unix epoch", names=("*.spans",)
)
'''


def opened(folder: Path, *, tells_rank: bool) -> subprocess.CompletedProcess[str]:
    """Open a folder with the files of two ranks where the importer is installed."""
    (folder / "spans.py").write_text(IMPORTER.replace("TELLS_RANK", str(tells_rank)))
    about = folder / "spans-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: spans\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[stepscope.importers]\nspans = spans:IMPORTER\n")
    traces = folder / "traces"
    traces.mkdir()
    for rank in (0, 1):
        (traces / f"rank{rank}.spans").write_text("SPANS\nencode 10 20\ndecode 20 40\n")
    code = f"""
import sys
sys.path.insert(0, {str(folder)!r})
from stepscope.storage import open_run
print(open_run({str(traces)!r}).optional("host", "rank", "name", "end").rows())
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_folder_is_searched_for_the_names_of_every_importer(tmp_path: Path) -> None:
    done = opened(tmp_path, tells_rank=True)
    rows = [(rank, *row) for rank in (0, 1) for row in (("encode", 20), ("decode", 40))]
    assert done.stdout == f"{rows}\n", done.stderr


def test_an_importer_that_tells_no_rank_is_named(tmp_path: Path) -> None:
    assert "spans: read() must add a row to the table `processes`" in opened(tmp_path, tells_rank=False).stderr
