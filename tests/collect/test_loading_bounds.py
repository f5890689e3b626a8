"""All files of the input pipeline together have a limit, however many workers there are."""

import os
from pathlib import Path

from stepscope.collect.dataloader.spans import FETCH, FULL_FILES, SMALL_LIMIT, open_spans
from stepscope.run_format.records import HEADER, SPAN


def test_files_of_a_run_are_bounded_together(tmp_path: Path) -> None:
    for _ in range(FULL_FILES):
        opened = open_spans(str(tmp_path), "main", {})
        assert opened is not None
        opened.abandon()
    small = open_spans(str(tmp_path), "main", {})
    assert small is not None
    for number in range(SMALL_LIMIT // SPAN.struct.size + 5):
        small.write(FETCH, 1 + number, 1, 1, number, 0, 0)
    assert small.lost > 0
    assert os.stat(small.path + ".bin").st_size <= SMALL_LIMIT + HEADER.size + (16 << 10)
    assert small.thinning() > 1000
