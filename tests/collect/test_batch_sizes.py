"""What is noted of a sample, a file that is read and a batch."""

import io
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from stepscope.collect.dataloader.batch_sizes import extent, file_number, tensors


class Hostile:
    """Raises where it is asked what it holds."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("shape")

    name = nbytes = shape


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (torch.zeros(3, 4, 5), (60, 240)),
        (torch.zeros(3, 4, 5, dtype=torch.uint8), (60, 60)),
        (np.zeros((4, 5)), (20, 160)),
        (Image.new("RGB", (7, 5)), (105, 105)),
        (Image.new("L", (7, 5)), (35, 35)),
        (Image.new("F", (7, 5)), (35, -1)),
        (torch.eye(3).to_sparse(), (9, -1)),
        ((torch.zeros(2, 3), 1), (6, 24)),
        ([], (-1, -1)),
        ("text", (-1, -1)),
        (Hostile(), (-1, -1)),
        (io.BytesIO(b"12"), (-1, -1)),
    ],
)
def test_numbers_and_bytes_of_a_sample(thing: object, expected: tuple[int, int]) -> None:
    assert extent((thing,)) == expected
    assert extent((object(), thing)) == expected, "the transform comes before the sample"


def test_a_file_has_one_number_however_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    with path.open() as file:
        found = {file_number((thing,)) for thing in (str(path), path, file)}
    assert found == {zlib.crc32(str(path).encode())}
    assert file_number((object(), path)) in found, "a method has the object before the file"
    assert file_number((io.BytesIO(b""),)) == file_number((Hostile(),)) == file_number(()) == -1


def test_tensors_of_a_batch_wherever_they_are() -> None:
    batch = {"pictures": torch.zeros(2, 3), "more": [np.zeros(4), (torch.zeros(1, dtype=torch.uint8), "text")]}
    assert tensors(batch) == [("torch.float32", 24), ("float64", 32), ("torch.uint8", 1)]
    assert tensors(Hostile()) == []
    assert len(tensors([torch.zeros(1)] * 100)) == 64
