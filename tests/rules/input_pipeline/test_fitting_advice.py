"""Advice of the rules about loading fits the loader that a run has."""

import pytest

from stepscope.core.finding import Finding
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.report.diagnose import RULES, diagnose


def one(name: str, run: Run) -> Finding:
    (finding,) = RULES.get(name).check(run)
    return finding


def loading(stage: str, name: str) -> Run:
    """2 workers fill 2 cores, with one part of loading."""
    parts = ((stage, name, 35.0, 35.0), ("collate", "torch.c", 2.0, 2.0))
    return Synth().loading(length=20, own=10, workers=2, cores=2, parts=parts, used=2).run()


def test_a_loader_without_workers_needs_no_shared_memory() -> None:
    synth = Synth().add("meta", source="run.json", key="shared_memory", value='{"size": 200, "free": 10}')
    synth.add("loaders", loader=0, train=True, num_workers=0)
    assert list(RULES.get("small-shared-memory").check(synth.run())) == []


def test_code_of_torch_is_not_to_be_edited() -> None:
    first, *rest = one("slow-transform", loading("sample", "torch.utils.data.dataset.TensorDataset")).advice
    assert first.text == "Index whole batches instead of single samples"
    assert "batch_size=None" in first.code
    assert rest == []


@pytest.mark.parametrize(("name", "code"), [("data.Blur", "blur = Blur(...)"), ("data.blur", "batch = blur(batch)")])
def test_a_class_is_made_before_it_is_called(name: str, code: str) -> None:
    _, on_batches, *_ = one("slow-transform", loading("transform", name)).advice
    assert code in on_batches.code
    assert "batch = blur(batch)" in on_batches.code


def test_a_wait_too_short_for_workers_promises_none() -> None:
    synth = Synth().add("loaders", loader=0, train=True, dataset="Numbers", num_workers=0, batch_size=32)
    for step in range(10):
        synth.step(step, 10 * step, 10 * step + 10, data_wait=1, forward=4, backward=5)
    (finding,) = [block.finding for block in diagnose(synth.run()).findings]
    assert finding.advice[0].text.startswith("Index whole batches")
    assert finding.gain is not None
    assert "workers" not in finding.gain.basis


def test_a_wait_in_a_trace_with_stacks_is_found_at_the_line_it_is_in() -> None:
    """One step of a trace is enough: there are no others."""
    synth = Synth().host("train.py(12): main", "python", 0, 200).host("data.py(7): __getitem__", "python", 101, 159)
    synth.host("ProfilerStep#0", "annotation", 0, 100).host("ProfilerStep#1", "annotation", 100, 200)
    synth.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", 100, 160)
    for number, start in enumerate((1, 162)):
        synth.host("cudaLaunchKernel", "runtime", start, start + 0.1, correlation=number)
        synth.kernel(start + 1, 100 if number == 0 else 200, correlation=number)
    (block,) = [block for block in diagnose(synth.run()).findings if block.rule == "input-bound"]
    assert [(place.file, place.line) for place in block.finding.where] == [("data.py", 7)]
