"""Files that people point at by mistake get a message that knows them."""

from pathlib import Path

import pytest

from stepscope.core.errors import BadInput
from stepscope.importers import IMPORTERS, importer_of


@pytest.mark.parametrize(
    ("name", "content", "why", "advice"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n....", "not JSON but a PNG picture", "stepscope run -- COMMAND"),
        ("ls", b"\x7fELF\x02\x01", "not JSON but a program", "stepscope run -- COMMAND"),
        ("model.pt", b"PK\x03\x04", "not JSON but a ZIP archive, as torch.save writes it", "stepscope run"),
        ("x", b"a\x00\x01\x02", "not JSON but a binary file", "stepscope run"),
        ("train.py", b"import torch", "a Python script, not a trace", "`stepscope run -- python {path}`"),
        ("go.sh", b"#!/bin/sh", "a shell script, not a trace", "`stepscope run -- bash {path}`"),
        ("a.ipynb", b'{"cells": []}', "a Jupyter notebook, not a trace", "jupyter nbconvert --to script {path}"),
        ("n0.xplane.pb", b"\n\x0f/host:CPU\x00", "a profile of XLA", "`xprof {folder}`"),
        ("a.nsys-rep", b"\x00\x01", "a report of Nsight Systems", "`nsys stats {path}`"),
        ("a.ncu-rep", b"NVR\x00", "a report of Nsight Compute", "`ncu-ui {path}`"),
        ("model.pb", b"\x08\x01", "protocol buffers, such as a model", "`stepscope run -- COMMAND`"),
        ("a.csv", b"step,ms\n1,20\n", "a table of values, not a trace", "stepscope run -- COMMAND"),
        ("a.bmp", b"BM\x00\x00", "not JSON but a BMP picture", "stepscope run -- COMMAND"),
        ("a.tif", b"II*\x00", "not JSON but a TIFF picture", "stepscope run -- COMMAND"),
        ("run.json", b'{"format": "stepscope-run", "version": 1}', "a part of a run", "`stepscope report {folder}`"),
        ("rank-0.pid-1/steps.bin", b"STEPSCOPE-STEPS1", "a part of a run folder", "`stepscope report {folder}`"),
    ],
)
def test_what_a_file_is_and_what_to_do(tmp_path: Path, name: str, content: bytes, why: str, advice: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        importer_of(path)
    assert caught.value.why.startswith(why)
    assert advice.format(path=path, folder=tmp_path) in caught.value.next_step


@pytest.mark.parametrize("content", [b"hello", b'{"a": 1}', b"", "[]".encode("utf-16")])
def test_what_is_not_known_is_left_to_the_reader_of_json(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert importer_of(path) is IMPORTERS.get("kineto")
