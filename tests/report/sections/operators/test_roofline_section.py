"""The section on rooflines: kinds of work, utilization, and what is said where it is not known."""

import json

import pytest

from stepscope.core.errors import MissingData
from stepscope.core.report import Roof, Roofline, Table, Text
from stepscope.core.synth import MS, Synth
from stepscope.render.format import text
from stepscope.report.sections.operators.roofline import SECTION

SQUARE = json.dumps([[8192, 8192], [8192, 8192]])


def product(gpu: str) -> Synth:
    """A step of 10 ms with a product of 2·8192³ FLOPs that takes 5 ms."""
    synth = Synth().add("devices", rank=0, device=0, name=gpu, memory=42_505_273_344, sms=108)
    synth.host("ProfilerStep#3", "annotation", 0, 10)
    synth.host("aten::mm", "operator", 1, 2, input_dims=SQUARE, input_types='["c10::Half","c10::Half"]')
    synth.host("cudaLaunchKernel", "runtime", 1.2, 1.4, correlation=1)
    return synth.kernel(3, 8, "gemm", correlation=1)


def test_kinds_of_work_and_utilization() -> None:
    chart, table, meaning, sentence = SECTION.build(product("NVIDIA A100-SXM4-40GB").run())
    assert isinstance(chart, Roofline)
    assert (chart.title, chart.bandwidth) == ("Roofline of A100 40GB", 1.555e12)
    assert chart.roofs == (Roof("float16", 312e12),)
    (point,) = chart.points
    assert (point.label, point.total) == ("GEMM", 5 * MS)
    assert point.speed == pytest.approx(2 * 8192**3 / 5e-3)
    assert point.intensity == pytest.approx(2 * 8192**3 / (3 * 2 * 8192**2))
    assert isinstance(table, Table) and isinstance(sentence, Text) and isinstance(meaning, Text)
    assert meaning.text.startswith("Roofline efficiency: the least time")
    assert table.rows[0][:4] == ("GEMM", 5 * MS, 1.0, 1.0)
    assert text(sentence) == (
        "Model FLOPs utilization: 35 % of the peak of A100 40GB, over 1 step; "
        "FLOPs are known for 100 % of the computing time."
    )


def test_a_device_without_known_peaks() -> None:
    _, sentence = SECTION.build(product("Abacus").run())
    assert isinstance(sentence, Text)
    assert text(sentence) == "No roofline efficiency: the peak speeds of this device are unknown."


def test_a_job_on_the_cpu_has_no_such_section() -> None:
    synth = Synth().host("aten::mm", "operator", 1, 2, input_dims=SQUARE, input_types='["float","float"]')
    assert SECTION.build(synth.run()) == []


def test_without_shapes_it_is_missing() -> None:
    with pytest.raises(MissingData, match="shapes"):
        SECTION.build(Synth().host("aten::mm", "operator", 1, 2).kernel(3, 8).run())
