"""What a frame of the timeline costs: computing it, writing it as JSON, and how large it is.

200 frames are asked for in a window of 1,400 pixels, as a person would: the whole run, windows from it down to 50 us
around moments spread over it, and pans by a third of the window. Each is computed for all tracks. The trace is that of
`bench/open_trace.py`; the tables come from the cache of parsed traces. Times are wall clock of this process, which does
nothing else.

Usage: python bench/timeline.py [--size MB] [--trace FILE]
"""

import argparse
import gzip
import json
import os
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from open_trace import KEPT, TILED, corpus, tiled
from stepscope.storage import open_run
from stepscope.storage.cache import VARIABLE
from stepscope.timeline import find, frame, origin, sums, tracks
from stepscope.timeline.answers import frame_answer, tracks_answer

WIDTH = 1400
FRAMES = 200
SHORTEST = 50_000  # ns


def windows(first: int, last: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """What is asked for, and why: the same every time."""
    chance, whole = random.Random(7), last - first
    asked = 0
    while asked < FRAMES:
        yield "whole run", (first, last)
        asked += 1
        length = whole
        while length > SHORTEST and asked < FRAMES:
            length = max(length // 4, SHORTEST)
            start = first + chance.randrange(max(whole - length, 1))
            yield "zoom", (start, start + length)
            yield "pan", (start + length // 3, start + length // 3 + length)
            asked += 2


def told(what: str, times: list[float]) -> None:
    """The median, the 95th of a hundred and the worst of some times, in ms."""
    ordered = sorted(time * 1e3 for time in times)
    later = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    figures = f"{statistics.median(ordered):7.1f} ms median {later:7.1f} p95 {ordered[-1]:7.1f} worst"
    print(f"{what:<24} {len(ordered):4} times: {figures}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="MB of the trace")
    parser.add_argument("--trace", type=Path, help="another trace than the tiled one")
    options = parser.parse_args()
    os.environ.setdefault(VARIABLE, str(KEPT / "cache"))
    trace = options.trace or tiled(options.size, corpus() / TILED)
    open_run(trace, use_cache=True)  # fills the cache
    run = open_run(trace, use_cache=True)
    began = time.perf_counter()
    known = tracks(run)
    spans = sum(track.count for track in known if track.lanes)
    print(f"{len(known)} tracks, {spans:,} spans; load {os.getloadavg()[0]:.1f}")
    prepared, size = time.perf_counter() - began, len(json.dumps(tracks_answer(run)))
    print(f"{'preparing the tracks':<24} {prepared:8.2f} s, {size} bytes")
    computing: dict[str, list[float]] = {}
    writing, sizes, packed = [], [], []
    for what, window in windows(origin(run), max(track.last for track in known)):
        began = time.perf_counter()
        found = frame(run, window, WIDTH)
        computed = time.perf_counter()
        text = json.dumps(frame_answer(found, origin(run)), allow_nan=False, separators=(",", ":")).encode()
        computing.setdefault(what, []).append(computed - began)
        writing.append(time.perf_counter() - computed)
        sizes.append(len(text))
        packed.append(len(gzip.compress(text, compresslevel=1)))
    told("frame", [time for times in computing.values() for time in times])
    for what, times in computing.items():
        told(f"  {what}", times)
    told("answer as JSON", writing)
    for what, numbers in (("bytes", sizes), ("bytes, gzip", packed)):
        print(f"{what:<24} {statistics.median(numbers):12,.0f} median {max(numbers):12,} most")
    for what, act in (("search", lambda: find(run, "conv")), ("sums", lambda: sums(run, (origin(run), known[0].last)))):
        began = time.perf_counter()
        act()
        print(f"{what:<24} {(time.perf_counter() - began) * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
