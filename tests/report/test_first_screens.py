"""Each kind of run has a first screen of its own: what it is, where its time goes, what would show more."""

import io
from dataclasses import replace

import pytest

from stepscope.core.report import Bars, Table, Text, Verdict
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.terminal import console_for
from stepscope.render.terminal_card import LINES, print_card
from stepscope.report.assemble import SECTIONS, first_screen
from stepscope.report.first_screens import LARGEST, kind
from stepscope.report.step_bar import of_communication


def healthy(*, wait: float = 0) -> Synth:
    """A job on the CPU, sampled in its model."""
    synth = Synth()
    for step in range(40):
        start = 100 * step
        synth.step(step, start, start + 100, data_wait=wait, forward=50 - wait / 2, backward=50 - wait / 2)
        for at in range(5):
            synth.sample(
                step, start + 10 * at, 10, "forward", "/home/me/model.py", 10 + at, function="forward",
                text=f"x = layer_{at}(x)", call="torch/nn/modules/linear.py:100 forward",
                leaf="torch/nn/modules/linear.py:100 forward",
            )  # fmt: skip
    return synth


def inference() -> Synth:
    synth = Synth()
    for at in range(20):
        synth.host("aten::mm", "operator", 50 * at, 50 * at + 5)
        synth.kernel(50 * at, 50 * at + 49, f"gemm_{at % 7}")
    return synth


def without_steps() -> Synth:
    synth = inference()
    return synth.host("autograd::engine::evaluate_function: MmBackward0", "operator", 1001, 1002)


def captured() -> Synth:
    """Launches between the begin and the end of a capture, of which one ran."""
    synth = Synth().host("hipStreamBeginCapture", "runtime", 0, 1)
    for at in range(50):
        synth.host("aten::mm", "operator", 2 + at, 2.9 + at)
        synth.host("hipLaunchKernel", "runtime", 2.1 + at, 2.2 + at, correlation=at)
    return synth.kernel(60, 62, correlation=0).host("hipStreamEndCapture", "runtime", 60, 61)


def memory() -> Synth:
    """Six kinds of blocks, none freed: the file of a memory timeline."""
    synth = Synth()
    for at, category in enumerate(("activation", "gradient", "parameter", "input", "temporary", "unknown")):
        synth.add("memory", time=at * MS, bytes=1000 - at, category=category, total_allocated=1000 * (at + 1))
    return synth


KINDS = {
    "training": healthy(wait=60), "nothing-found": healthy(), "inference": inference(), "no-steps": without_steps(),
    "graph-capture": captured(), "memory": memory(),
}  # fmt: skip


def screen(run: Run, width: int = 100) -> str:
    stream = io.StringIO()
    console = console_for(stream)
    console.width = width
    print_card(console, first_screen(run))
    return stream.getvalue()


@pytest.mark.parametrize("name", KINDS)
def test_a_run_is_of_one_kind(name: str) -> None:
    assert kind(KINDS[name].run()) == name


def test_a_replayed_graph_is_no_capture() -> None:
    """Every launch of a job that also looks at captures left work on the device."""
    synth = Synth().host("hipStreamGetCaptureInfo", "runtime", 0, 1)
    for at in range(50):
        synth.host("hipLaunchKernel", "runtime", at, at + 0.1, correlation=at).kernel(at, at + 0.5, correlation=at)
    assert kind(synth.run()) != "graph-capture"


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("name", KINDS)
def test_each_fits_and_says_where_the_time_goes(name: str, width: int) -> None:
    lines = screen(KINDS[name].run(), width).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= width
    blocks = SECTIONS.get("summary").build(KINDS[name].run())
    assert any(isinstance(block, Bars) for block in blocks) == (name not in ("graph-capture", "memory")), "nothing runs"
    tables = [block for block in blocks if isinstance(block, Table)]
    assert (name == "training") == (not tables)
    assert all(0 < len(table.rows) <= LARGEST for table in tables)
    assert "stepscope view synthetic" in lines[-1]


def test_a_file_of_memory_says_what_fills_the_peak() -> None:
    text = screen(memory().run())
    assert text.startswith("Unknown: this file holds memory and no times")
    assert "Memory at the peak of rank 0\n" in text
    assert "activation" in text and "training steps" not in text


def test_where_nothing_is_found_the_largest_lines_are_told_without_a_trace() -> None:
    text = screen(healthy().run())
    assert "Longest lines\n" in text
    assert "model.py:10" in text and "x = layer_0(x)" in text
    assert "No problem found (" in text
    assert "Next: " in text
    assert "checks clear" not in text, "the sentence above says it"


def test_kernels_go_first_and_are_of_the_busiest_rank() -> None:
    synth = inference()
    for at in range(40):
        synth.host("aten::mm", "operator", 50 * at, 50 * at + 5, rank=1)
        synth.kernel(50 * at, 50 * at + 49, f"busy_{at % 7}", rank=1)
    (table,) = [block for block in SECTIONS.get("summary").build(synth.run()) if isinstance(block, Table)]
    assert table.title == "Longest kernels"
    assert {str(row[0])[:5] for row in table.rows} == {"busy_"}


def test_that_a_trace_is_of_inference_is_told() -> None:
    told = [block.text for block in SECTIONS.get("summary").build(KINDS["inference"].run()) if isinstance(block, Text)]
    assert "Inference: this trace has no backward and no optimizer." in told


def test_a_trace_of_a_graph_capture_has_no_limit() -> None:
    drawn = screen(captured().run())
    assert "Unknown: kernels are captured into a device graph here, they do not run: trace a replay" in drawn
    assert "Longest operators" in drawn, "kernels of a capture did not run"


def test_an_idle_device_without_steps_is_a_bar_of_its_time() -> None:
    run = Synth().kernel(0, 40).kernel(90, 100).run()
    (bar,) = [block for block in SECTIONS.get("summary").build(run) if isinstance(block, Bars)]
    assert (bar.title, [part.label for part in bar.parts]) == (
        "From first to last device work",
        ["kernels", "device idle"],
    )
    assert [part.value for part in bar.parts] == pytest.approx([50 * MS, 50 * MS])
    assert "checks clear" in screen(run), "a run without steps is not called healthy"


@pytest.mark.parametrize("state", ["running", "running, or stepscope was killed", "ended"])
def test_a_run_in_progress_says_so(state: str) -> None:
    synth = healthy(wait=60)
    synth.add("meta", source="run", key="state", value=state)
    shown = " ".join(screen(synth.run()).split())
    assert ("The job still runs" in shown) == (state != "ended")
    assert "covers its steps so far" in shown or state == "ended"


def test_communication_on_the_cpu_is_a_part_of_the_bar() -> None:
    verdict = Verdict("communication", 0.4, 100.0 * MS, rank=0, ranks=(0, 1), of_ranks=2, steps=3, on_cpu=True)
    parts = of_communication(verdict)
    assert [(part.label, part.value) for part in parts] == [("communication", 40.0 * MS), ("other", 60.0 * MS)]
    assert of_communication(replace(verdict, bound="input")) == ()


def test_a_limit_without_a_finding_has_no_known_cause() -> None:
    """Without samples nobody knows which line it is."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host("aten::mm", "operator", 10, 40)
    text = screen(synth.run())
    assert text.startswith("Host-bound: Python and file I/O take 70 %")
    assert "No cause found (" in text and "No problem" not in text
