"""Calls of a data set are watched beside torch.compile."""

import threading
from typing import Any

import pytest

from stepscope.collect.dataloader.batch_recorder import BatchRecorder
from stepscope.collect.dataloader.calls import Calls
from stepscope.collect.dataloader.spans import TRANSFORM

from .test_loading_calls import Chain, Flip, Letters, lower, stages


@pytest.mark.slow
def test_a_compiled_model_of_the_same_class_as_a_transform_is_not_compiled_again(recorder: BatchRecorder) -> None:
    import torch

    class Doubled(torch.nn.Module):
        def forward(self, sample: torch.Tensor) -> torch.Tensor:
            return sample * 2

    compiled = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        compiled.append(graph)
        return graph.forward

    transform, model = Doubled(), torch.compile(torch.nn.Sequential(Doubled(), Doubled()), backend=backend)
    dataset = Letters(lambda _: transform(torch.ones(2)))
    held = Letters(Chain(transform))
    before = dict(vars(Doubled))
    for batch in range(4):
        calls = Calls(recorder)
        if batch % 2:
            calls.begin([dataset, held])
        dataset[0]
        assert model(torch.ones(2)).tolist() == [4, 4]
        assert dict(vars(Doubled)) == before
        calls.end()
        model(torch.ones(2))
    assert len(compiled) == 1


@pytest.mark.slow
def test_calls_are_watched_while_another_thread_runs_what_is_compiled(recorder: BatchRecorder) -> None:
    """Both want to run the frames: neither may lose its own, and after both the interpreter has its own way again."""
    import torch

    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled, ended, wrong = torch.compile(lambda x: x * 2 + 1, backend=backend), threading.Event(), []
    compiled(torch.ones(2))

    def run() -> None:
        while not ended.is_set():
            if compiled(torch.ones(2)).tolist() != [3, 3]:
                wrong.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    dataset, calls = Letters(Chain(Flip(), lower)), Calls(recorder)
    for _ in range(300):
        calls.begin([dataset])
        assert dataset[1] == "!b"
        calls.end()
    ended.set()
    thread.join()
    assert (len(graphs), wrong) == (1, [])
    found = stages(recorder)
    assert set(found) == {TRANSFORM}
    assert 600 < len(found) <= 900, "torch.compile may end a fetch's watch"
