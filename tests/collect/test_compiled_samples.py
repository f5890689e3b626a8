"""The compiled way to the samples of a batch."""

from typing import Any

import pytest
import torch

from .fake_job import Probe, probe


@pytest.fixture
def compiled() -> Probe:
    return probe("compiled")


class Tensor:
    def __init__(self, *shape: Any) -> None:
        self.shape = shape


class Interrupting:
    @property
    def shape(self) -> tuple[int]:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ([Tensor(5, 3)], 5),
        ([torch.ones(6, 2)], 6),
        ([torch.ones(0, 2)], 0),
        ([torch.ones(())], -(1 << 50)),
        ([torch.nn.Parameter(torch.ones(6, 2))], 6),
        ([torch.ones(6, 2, device="meta")], 6),
        ((Tensor(True), 1), 1),
        ({0: Tensor(7)}, 7),
        ([Tensor()], -(1 << 50)),
        ([Tensor("many")], -(1 << 50)),
        ([Tensor(1 << 80)], -(1 << 50)),
        ([], -(1 << 50)),
        (None, -(1 << 50)),
        ([3], -(1 << 50)),
    ],
)
def test_the_first_axis_of_the_first_tensor(compiled: Probe, batch: Any, samples: int) -> None:
    for plain in (None, Tensor, torch.Tensor):
        assert compiled.fields.compiled.FirstAxis(plain, 0)(batch) == samples


def test_a_batch_that_is_a_tensor_is_counted_and_an_interrupt_passes(compiled: Probe) -> None:
    count = compiled.fields.compiled.FirstAxis(torch.Tensor)
    assert count(Tensor(9, 2)) == 9
    with pytest.raises(KeyboardInterrupt):
        count(Interrupting())


@pytest.mark.parametrize("batch", [[Tensor(4)], {"x": Tensor(4)}, Tensor(4), ([Tensor(4)],)])
def test_both_kinds_find_the_same_way_to_the_samples(kind: str, batch: Any) -> None:
    use = probe(kind).training_loader.LoaderUse(0, None)
    use.count = probe(kind).samples.counter(use, 4)
    assert [use.count(batch), use.count(batch), use.count(None)] == [4, 4, -(1 << 50)]
