"""The traced window on real training with the real profiler; each test is one job in a process of its own."""

import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .forked_jobs import Jobs, forked_jobs
from .window_job import END, JOB, WHOLE_LOOK, events, outcome, rows, within

pytestmark = pytest.mark.slow

pytest.importorskip("torch")

RunJob = Callable[..., dict[str, Any]]
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with forked_jobs(SOURCE) as started:
        yield started


@pytest.fixture
def run_job(jobs: Jobs, tmp_path: Path) -> RunJob:
    """Runs JOB and a script; gives its last line, its stderr, the windows and the notes."""

    def run(script: str, before: str = "") -> dict[str, Any]:
        code, told, errors = jobs.run(JOB + before + textwrap.dedent(script) + END, tmp_path)
        assert code == 0, errors
        lines = told.splitlines()
        return {
            **(json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}),
            "stdout": lines,
            "stderr": errors,
            "windows": rows(tmp_path / "rank" / "windows.jsonl"),
            "notes": rows(tmp_path / "rank" / "notes.jsonl"),
            "directory": tmp_path / "rank",
        }

    return run


def test_every_traced_step_is_whole(run_job: RunJob) -> None:
    job = run_job("window = window(SCHEDULE); train(window, 10); window.close()")
    assert outcome(job) == [("recorded", 4, 6, "window-000.pt.trace.json")]
    assert job["windows"][0]["reason"] is None
    assert job["windows"][0]["options"]["activities"] == ["cpu"]
    started, stopped = job["windows"][0]["clocks"]
    assert started["monotonic_ns"] < stopped["monotonic_ns"]
    assert all(job["windows"][0][cost] > 0 for cost in ("start_cost_ns", "stop_cost_ns", "export_cost_ns"))
    # 2 = look, 3 = warm-up, 4 first traced, 7 after the export
    assert job["flags"] == {
        "0": 0, "1": 0, "2": 2, "3": 2, "4": 3, "5": 1, "6": 1, "7": 2, "8": 0, "9": 0, "10": 0,
    }  # fmt: skip
    assert not job["live"]
    assert job["stderr"] == ""
    assert job["notes"] == []

    trace = events(job["directory"] / "window-000.pt.trace.json")
    steps = sorted(
        (event for event in trace if event["name"].startswith("ProfilerStep")), key=lambda event: event["ts"]
    )
    assert [step["name"] for step in steps] == ["ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6"]
    for step in steps:
        inside = [event["name"] for event in trace if within(step, event)]
        assert inside.count("Optimizer.step#SGD.step") == 1
        assert inside.count("Optimizer.zero_grad#SGD.zero_grad") == 1
        assert inside.count("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__") == 1
        assert inside.count("aten::conv2d") == 1
        assert inside.count("aten::cross_entropy_loss") == 1
        assert any("ConvolutionBackward0" in name for name in inside)
    assert sum(event["name"] == "Optimizer.step#SGD.step" for event in trace) == 3


def test_options_reach_the_profiler(run_job: RunJob) -> None:
    job = run_job(
        "window = window(SCHEDULE, extras=['shapes', 'memory', 'stacks', 'flops', 'modules']); train(window, 10)",
    )
    text = (job["directory"] / "window-000.pt.trace.json").read_text()
    trace = json.loads(text)
    for key in ("with_stack", "record_shapes", "profile_memory", "with_modules", "with_flops"):
        assert trace[key] == 1
    assert any("Input Dims" in event.get("args", {}) for event in trace["traceEvents"])
    assert any(event.get("cat") == "python_function" for event in trace["traceEvents"])
    assert any(event["name"] == "[memory]" for event in trace["traceEvents"])
    # torch itself says this once with profile_memory, through no door that could be shut in a running process
    assert "Memory block of unknown size" in job["stderr"]
    assert len(job["stderr"].splitlines()) == 1


def test_windows_repeat(run_job: RunJob) -> None:
    schedule = {"skip_first": 1, "wait": 2, "warmup": 1, "active": 2, "repeat": 3}
    job = run_job(f"window = window({schedule}); train(window, 20); window.close()")
    assert outcome(job) == [
        ("recorded", 4, 5, "window-000.pt.trace.json"),
        ("recorded", 9, 10, "window-001.pt.trace.json"),
        ("recorded", 14, 15, "window-002.pt.trace.json"),
    ]
    names = {event["name"] for event in events(job["directory"] / "window-002.pt.trace.json")}
    assert {name for name in names if name.startswith("ProfilerStep")} == {"ProfilerStep#14", "ProfilerStep#15"}
    assert job["stderr"] == ""


def test_windows_without_end_go_on_though_their_own_profilers_linger(run_job: RunJob) -> None:
    """Whoever looks at frames, a debugger or a sampler, may keep a used profiler alive for a while."""
    job = run_job("""
        import gc
        kept = []
        def keep(step):
            kept.extend(thing for thing in gc.get_objects() if type(thing).__name__ == "_KinetoProfile")
        window = window({"wait": 1, "warmup": 1, "active": 1, "repeat": 0})
        train(window, 13, keep)
        window.close()
    """)
    assert [row["status"] for row in job["windows"]] == ["recorded"] * len(job["windows"])
    assert len(job["windows"]) == 4
    assert job["notes"] == []


def test_step_zero_cannot_be_traced_so_step_one_is(run_job: RunJob) -> None:
    schedule = {"skip_first": 0, "wait": 0, "warmup": 0, "active": 2, "repeat": 1}
    job = run_job(f"window = window({schedule}); train(window, 6); window.close()")
    assert outcome(job) == [("recorded", 1, 2, "window-000.pt.trace.json")]


@pytest.mark.alone
def test_a_step_with_too_many_events_is_never_recorded(run_job: RunJob) -> None:
    script = "window = window(SCHEDULE, trace_events=20_000); train(window, 8, operators=3000); window.close()"
    job = run_job(script, WHOLE_LOOK)
    assert outcome(job) == [("abandoned", 4, 6, None)]
    assert "a step holds about " in job["windows"][0]["reason"]
    assert job["windows"][0]["step_events"] == pytest.approx(12 * 3000, rel=0.1)
    assert "trace_events" in job["notes"][0]["why"]
    assert not list(job["directory"].glob("*.json"))


@pytest.mark.alone
def test_as_many_steps_as_the_events_allow(run_job: RunJob) -> None:
    script = "window = window(SCHEDULE, trace_events=90_000, trace_seconds=120); train(window, 8, operators=3000)"
    job = run_job(script, WHOLE_LOOK)
    assert outcome(job) == [("recorded", 4, 5, "window-000.pt.trace.json")]
    assert job["windows"][0]["reason"].startswith("2 of 3 steps: a step holds about ")


@pytest.mark.alone
def test_where_one_step_fits_the_look_is_the_trace(run_job: RunJob) -> None:
    script = "window = window(SCHEDULE, trace_events=50_000, any_step=True); train(window, 8, operators=3000)"
    job = run_job(script, WHOLE_LOOK)
    assert outcome(job) == [("recorded", 2, 2, "window-000.pt.trace.json")]
    assert job["windows"][0]["reason"].startswith("1 of 3 steps: a step holds about ")
    assert job["flags"] == {"0": 0, "1": 0, "2": 2, "3": 2, "4": 0, "5": 0, "6": 0, "7": 0, "8": 0}
    assert job["stderr"] == ""
    trace = events(job["directory"] / "window-000.pt.trace.json")
    (step,) = [event for event in trace if event["name"].startswith("ProfilerStep")]
    assert step["name"] == "ProfilerStep#2"
    multiplied = [event for event in trace if event["name"] == "aten::mul"]
    assert len(multiplied) >= 2 * 3000  # forward and backward
    assert all(within(step, event) for event in multiplied)
    assert sum(event["name"] == "Optimizer.step#SGD.step" for event in trace) == 1


@pytest.mark.alone
def test_steps_that_were_asked_for_are_recorded_after_the_look(run_job: RunJob) -> None:
    job = run_job("window = window(SCHEDULE, trace_events=50_000); train(window, 8, operators=3000)", WHOLE_LOOK)
    assert outcome(job) == [("recorded", 4, 4, "window-000.pt.trace.json")]


def test_a_look_at_an_endless_step_is_cut_inside_the_forward(run_job: RunJob) -> None:
    script = """
    window = window(SCHEDULE)
    def longer(step):
        if step == 2:
            with torch.no_grad():
                for index in range(1_500_000):
                    small * 1.0
                    if not window.active:
                        break
            print("cut at", index)
    train(window, 6, before=longer)
    window.close()
    """
    job = run_job(script)
    assert 1_000 < int(job["stdout"][0].split()[-1]) < 1_000_000
    assert outcome(job)[0][:3] in {("abandoned", 4, 6), ("recorded", 4, 4), ("recorded", 4, 5), ("abandoned", 4, 5)}


def test_a_recorded_step_that_grows_is_cut_and_the_whole_steps_kept(run_job: RunJob) -> None:
    script = """
    window = window(SCHEDULE, trace_seconds=2, trace_events=10_000_000)
    def longer(step):
        if step == 5:
            begin = time.monotonic()
            while time.monotonic() - begin < 60 and window.active:
                small * 1.0; time.sleep(0.005)  # hundreds of thousands of operators take long to write
            print("cut", window.active)
    train(window, 9, before=longer)
    window.close()
    """
    job = run_job(script)
    assert job["stdout"][0] == "cut False"
    assert outcome(job) == [("recorded", 4, 4, "window-000.pt.trace.json")]
    assert job["windows"][0]["reason"].startswith("1 of 3 steps: cut in step 5, it took longer than")
    assert job["flags"]["5"] & 2
    assert job["flags"]["6"] == 0


def test_nothing_stays_on_of_a_look_that_grows_too_large_in_a_backward_pass(run_job: RunJob) -> None:
    script = """
    window = window(SCHEDULE)
    def longer(gradient):
        if state.step == 2:
            begin = time.monotonic()
            while time.monotonic() - begin < 5 and not window._look.overdue:
                for _ in range(1000):
                    small.detach() * 1.0
            print("overdue", bool(window._look and window._look.overdue))
    model[0].weight.register_hook(longer)
    train(window, 3)
    print("on", torch.autograd._profiler_enabled())
    window.close()
    """
    job = run_job(script)
    assert job["stdout"][:2] == ["overdue True", "on False"]


def test_nothing_is_kept_of_a_first_step_that_never_ends(run_job: RunJob) -> None:
    script = """
    window = window(SCHEDULE, trace_seconds=0.2)
    train(window, 9, before=lambda step: time.sleep(0.5) if step == 4 else None)
    window.close()
    """
    job = run_job(script)
    assert outcome(job) == [("abandoned", 4, 3, None)]


def test_a_profiler_of_the_script_made_before_makes_the_window_stand_back(run_job: RunJob) -> None:
    script = """
    profiler = torch.profiler.profile(schedule=torch.profiler.schedule(wait=6, warmup=1, active=1))
    window = window(SCHEDULE)
    with profiler:
        train(window, 10, before=lambda step: profiler.step())
    window.close()
    print(len(profiler.events()) > 0)
    """
    job = run_job(script)
    assert job["stdout"][0] == "True"
    assert [row["status"] for row in job["windows"]] == ["stood back"]
    assert "torch.profiler.profiler.profile" in job["windows"][0]["reason"]
    assert "two profilers" in job["notes"][0]["why"]


@pytest.mark.parametrize("first", [2, 3, 4, 5])
def test_a_profiler_started_during_the_window_goes_first(run_job: RunJob, first: int) -> None:
    """The script's profiler meets a look (2), a prepared profiler (3), and a recording (4, 5)."""
    script = f"""
    window = window(SCHEDULE)
    profiler = None
    def before(step):
        global profiler
        if step == {first}:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
            profiler.start()
        if step == {first + 2}:
            profiler.stop()
            print(sum(event.name == "Optimizer.step#SGD.step" for event in profiler.events()))
    train(window, 12, before=before)
    window.close()
    """
    job = run_job(script)
    assert job["stdout"][0] == "2"
    assert [row["status"] for row in job["windows"]] == ["stood back"]
    assert not list(job["directory"].glob("*.json*.json"))
    assert "Warning" not in job["stderr"]


def test_a_job_shorter_than_the_window_says_so(run_job: RunJob) -> None:
    job = run_job("window = window(SCHEDULE); train(window, 2); window.close()")
    assert outcome(job) == [("abandoned", 4, 6, None)]
    assert job["windows"][0]["reason"] == "the job ended after 2 steps; the window was to begin at step 4"


@pytest.mark.parametrize("ended", [2, 3])
def test_a_job_that_ends_in_look_or_warmup_is_silent(run_job: RunJob, ended: int) -> None:
    job = run_job(f"window = window(SCHEDULE); train(window, {ended + 1}); window.close()")
    assert [row["status"] for row in job["windows"]] == ["abandoned"]
    assert job["stderr"] == ""


def test_a_job_that_ends_in_the_window_keeps_the_whole_steps(run_job: RunJob) -> None:
    job = run_job("window = window(SCHEDULE); train(window, 6); window.close()")
    assert outcome(job) == [("recorded", 4, 5, "window-000.pt.trace.json")]
    assert job["windows"][0]["reason"] == "2 of 3 steps: cut in step 6, the job ended"
    assert job["stderr"] == ""


def test_a_full_disk_costs_the_trace_and_nothing_else(run_job: RunJob) -> None:
    script = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    window = window(SCHEDULE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    train(window, 10)
    window.close()
    """
    job = run_job(script)
    assert [row["status"] for row in job["windows"]] == ["failed"]
    assert "disk full?" in job["windows"][0]["reason"]
    assert [path.name for path in job["directory"].glob("window-*")] == []


def test_what_a_signal_handler_of_the_job_raises_in_a_switch_reaches_the_job(run_job: RunJob) -> None:
    job = run_job("""
        import signal
        def handler(number, frame): raise LookupError("a worker is lost")
        signal.signal(signal.SIGUSR1, handler)
        window = window(SCHEDULE)
        try:
            window._guarded(lambda: signal.raise_signal(signal.SIGUSR1))
        except LookupError as error:
            print(error)
        train(window, 10)
    """)
    assert "a worker is lost" in job["stdout"]
    assert [window["status"] for window in job["windows"]] == ["failed"]
    assert not job["live"]


def test_an_activity_that_cannot_be_recorded_says_why(run_job: RunJob) -> None:
    job = run_job("window = window(SCHEDULE, activities=['cpu', 'cuda']); train(window, 10); window.close()")
    assert [row["status"] for row in job["windows"]] == ["failed"]
    assert "has not used CUDA" in job["windows"][0]["reason"]
    assert not job["live"]


def test_a_bad_schedule_does_not_break_the_job(run_job: RunJob) -> None:
    job = run_job("window = window({'active': 0}); train(window, 10); window.close()")
    assert [row["status"] for row in job["windows"]] == ["failed"]
    assert "active >= 1" in job["windows"][0]["reason"]


def test_a_forked_child_does_not_record(run_job: RunJob) -> None:
    script = """
    import resource
    window = window(SCHEDULE, trace_seconds=100)
    def before(step):
        if step == 5:
            child = os.fork()
            if not child:
                window.abandon()
                with torch.no_grad():
                    for operators in (20_000, 100_000):  # the first fill the child's own pages
                        begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                        for _ in range(operators):
                            small * 1.0
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin
                print(json.dumps({"grown": grown, "live": window.live}), flush=True)
                sys.exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    train(window, 10, before=before)
    window.close()
    """
    job = run_job(script)
    child = json.loads(job["stdout"][0])
    assert child["grown"] < 40_000  # KiB; it is 100,000 and more when the child records
    assert not child["live"]
    assert outcome(job) == [("recorded", 4, 6, "window-000.pt.trace.json")]
    assert job["stderr"] == ""


def test_training_in_another_thread(run_job: RunJob) -> None:
    script = """
    import threading
    window = window(SCHEDULE)
    thread = threading.Thread(target=train, args=(window, 10))
    thread.start()
    thread.join()
    window.close()
    """
    job = run_job(script)
    assert outcome(job) == [("recorded", 4, 6, "window-000.pt.trace.json")]


def test_no_window_is_wanted(run_job: RunJob) -> None:
    job = run_job("window = window(None); train(window, 3); window.close()")
    assert not job["live"]
    assert job["windows"] == []
