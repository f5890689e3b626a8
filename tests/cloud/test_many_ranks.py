"""Ranks in a bucket or on a web server, opened by several processes that each talk to the server."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.steps.steps import steps
from stepscope.core.run import Run
from stepscope.storage import open_run
from stepscope.storage.processes import processes
from stepscope.storage.workers import in_this_process, using

pytestmark = [
    pytest.mark.usefixtures("alone"),
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),  # gcsfs, of a test's upload
]

Same = Callable[[Run, Run], None]
TWO = processes(2, cores=2, small=0)


def test_ranks_of_a_bucket(
    server: Any, ranks: Path, run_directory: Path, upload: Callable[[Path, str], None], same: Same
) -> None:
    upload(ranks, f"{server.bucket}/many/ranks")
    upload(run_directory, f"{server.bucket}/many/run")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for place, here in ((f"{server.bucket}/many/ranks", ranks), (f"{server.bucket}/many/run", run_directory)):
            same_with_steps(open_run(place, workers=using(pool), first=steps), open_run(here), same)
    same(open_run(f"{server.bucket}/many/ranks/rank_*", workers=in_this_process()), open_run(ranks))


def test_ranks_of_a_web_server(web: str, web_folder: Path, ranks: Path, same: Same) -> None:
    (web_folder / "many-ranks").symlink_to(ranks)
    same_with_steps(open_run(f"{web}/plain/many-ranks", workers=TWO, first=steps), open_run(ranks), same)


def same_with_steps(run: Run, other: Run, same: Same) -> None:
    """Also what the workers have computed."""
    assert_frame_equal(steps(run), steps(other))
    same(run, other)
