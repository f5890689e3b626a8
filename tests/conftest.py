"""The corpus of real traces lies outside the repository; tests that need it say so when it is not there."""

import fcntl
import gc
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .thoroughness import tries
from .warm_command import LIGHT_TORCH

SLOW = 100  # ordinary tests take as long as one that is marked slow
SLOW_FOLDERS = ("browser", "cloud", "harm")
"""Each test there is slow: it opens a page in a browser, talks to a server, or runs a job twice."""

COLLECT_EVERY = 50_000
"""New objects. At Python's 700, a tenth of the time of the tests is looking for garbage among what lasts."""

LARGE = 900_000  # bytes of a packed trace that takes more than about a second to read

settings.register_profile(
    "busy machine",
    parent=settings(),
    max_examples=tries(40, 400),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy machine")  # how long an example takes depends on what else runs


def corpus_root() -> Path:
    """The folder that holds `traces` and `golden`."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("STEPSCOPE_CORPUS", beside))


def absent() -> str:
    """Why the corpus cannot be used, or nothing."""
    root = corpus_root()
    return "" if (root / "traces").is_dir() else f"no corpus of traces in {root}; set STEPSCOPE_CORPUS to its folder"


@pytest.fixture(scope="session", autouse=True)
def _surroundings_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the cache of the person who runs it, nor draws as wide as that terminal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPSCOPE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="module", autouse=True)
def _jobs_import_torchs_compiler_when_they_compile(request: pytest.FixtureRequest) -> Iterator[None]:
    """That halves the start of a job (see light_torch). A module that says WHOLE_TORCH has jobs as users start them."""
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "WHOLE_TORCH", False):
            patch.setenv("PYTHONPATH", LIGHT_TORCH, prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of the corpus: `traces/` and `golden/`. Skips the test when there is none."""
    if absent():
        pytest.skip(absent())
    return corpus_root()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """One process is first, and compiles the tests where they are new; the others read what it has compiled."""
    lock = session.config.rootpath / ".cache" / "collecting"
    lock.parent.mkdir(exist_ok=True)
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH)
        return (yield)


def pytest_collection_finish() -> None:
    """Modules and tests last: no collection of garbage looks at them again, and seldom at what a test makes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)


@pytest.hookimpl(tryfirst=True)  # before slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest come first: a process that begins a long one at the end has the others wait for it."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
    weight: Counter[Path] = Counter()
    for item in items:
        weight[item.path] += SLOW if item.get_closest_marker("slow") else 1
    items.sort(key=lambda item: (-weight[item.path], str(item.path)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write down how long each test took, with its fixtures, for ./check, which runs the tests in two parts."""
    if "STEPSCOPE_DURATIONS" not in os.environ or "PYTEST_XDIST_WORKER" in os.environ:
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] += report.duration
    with open(os.environ["STEPSCOPE_DURATIONS"], "a", encoding="utf-8") as file:
        file.writelines(f"{took:8.1f} s  {name}\n" for name, took in seconds.items())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with an argument `golden_trace` once for each file of exact reference values (a path below golden/)."""
    if "golden_trace" not in metafunc.fixturenames:
        return
    if absent():
        metafunc.parametrize("golden_trace", [pytest.param("", marks=pytest.mark.skip(reason=absent()))])
        return
    root = corpus_root()
    files = sorted(file.relative_to(root / "golden") for file in (root / "golden" / "exact").rglob("*.json"))
    parameters = []
    for file in files:
        trace = root / "traces" / json.loads((root / "golden" / file).read_text())["trace"]
        if not trace.is_relative_to(root / "traces" / "nsys"):
            marks = [pytest.mark.slow] if trace.stat().st_size > LARGE else []
            parameters.append(pytest.param(str(file), marks=marks, id=str(file)))
    metafunc.parametrize("golden_trace", parameters)
