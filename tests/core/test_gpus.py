"""Peaks by the names that drivers give: found for what is known, None for what is not, and possible figures."""

import re

import pytest

from stepscope.core.gpus import gpu_named, known_gpus

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "memory", "sms", "expected"),
    [
        ("Tesla P100-SXM2-16GB", 17_071_734_784, 56, "P100 SXM2"),
        ("Tesla P100-PCIE-16GB", 17_066_885_120, 56, "P100 PCIe 16GB"),
        ("Tesla P100-PCIE-12GB", 12_778_405_888, 56, "P100 PCIe 12GB"),
        ("Tesla V100-SXM2-32GB", 34_089_730_048, 80, "V100 SXM2"),
        ("Tesla V100-DGXS-32GB", 34_084_028_416, 80, "V100 SXM2"),
        ("Tesla V100-PCIE-16GB", 16 * GIB, 80, "V100 PCIe"),
        ("NVIDIA GeForce RTX 2080 Ti", 11 * GIB, 68, "RTX 2080 Ti"),
        ("Tesla T4", 15 * GIB, 40, "T4"),
        ("NVIDIA A100-PG509-200", 42_505_273_344, 108, "A100 40GB"),
        ("NVIDIA A100-PCIE-40GB", 42_505_273_344, 108, "A100 40GB"),
        ("NVIDIA A100 80GB PCIe", 85_000_000_000, 108, "A100 80GB PCIe"),
        ("NVIDIA A100-SXM4-80GB", 85_000_000_000, 108, "A100 80GB SXM"),
        ("NVIDIA A100-SXM4-40GB", 42_505_273_344, 108, "A100 40GB"),
        ("NVIDIA A10", 24 * GIB, 72, "A10"),
        ("NVIDIA A10G", 24 * GIB, 80, "A10G"),
        ("NVIDIA L4", 24 * GIB, 58, "L4"),
        ("NVIDIA L40S", 48 * GIB, 142, "L40S"),
        ("NVIDIA H100 80GB HBM3", 85_000_000_000, 132, "H100 SXM"),
        ("NVIDIA H800", 85_000_000_000, 132, "H800 SXM"),
        ("NVIDIA H20", 102_000_000_000, 78, "H20"),
        ("NVIDIA H20", 150_000_000_000, 78, "H20 141GB"),
        ("NVIDIA H100 PCIe", 85_000_000_000, 114, "H100 PCIe"),
        ("NVIDIA H100 NVL", 100_000_000_000, 132, "H100 NVL"),
        ("NVIDIA H200", 150_000_000_000, 132, "H200 SXM"),
        ("NVIDIA GH200 480GB", 101_000_000_000, 132, "GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", 150_000_000_000, 132, "GH200 144GB"),
        ("NVIDIA B200", 191_000_000_000, 148, "B200"),
        ("NVIDIA GB200", 198_000_000_000, 152, "GB200"),
        ("NVIDIA GeForce RTX 4090", 24 * GIB, 128, "RTX 4090"),
        ("NVIDIA GeForce RTX 3090 Ti", 24 * GIB, 84, "RTX 3090 Ti"),
        ("AMD Instinct MI250X/MI250", 64 * GIB, 104, "MI250 (one of two dies)"),
        ("AMD Instinct MI250X", 64 * GIB, 110, "MI250X (one of two dies)"),
        ("AMD Instinct MI300X VF", 192 * GIB, 304, "MI300X"),
        ("AMD Instinct MI300X", 192 * GIB, 304, "MI300X"),
        ("AMD Instinct MI355X", 288 * GIB, 256, "MI355X"),
    ],
)
def test_products_by_the_names_that_drivers_give(name: str, memory: int, sms: int, expected: str) -> None:
    found = gpu_named(name, memory=memory, multiprocessors=sms)
    assert found is not None and found.name == expected


@pytest.mark.parametrize(
    "name", [None, "", "AMD Radeon Graphics", "Meta MTIA", "NVIDIA GeForce RTX 3080 Ti", "NVIDIA A1000"]
)
def test_unknown_products_are_none(name: str | None) -> None:
    assert gpu_named(name) is None


def test_without_memory_the_slower_variant_is_taken() -> None:
    found = gpu_named("NVIDIA A100-SXM4")
    assert found is not None and found.bandwidth == 1555e9


def test_what_no_source_confirms_is_not_there_and_the_reason_is() -> None:
    gpus = {gpu.name: gpu for gpu in known_gpus()}
    assert gpus["H20 141GB"].bandwidth is None
    assert "float64" not in {**gpus["A30"].vector, **gpus["A30"].matrix}
    assert "float64" not in {**gpus["H800 SXM"].vector, **gpus["H800 SXM"].matrix}
    assert {name for name, gpu in gpus.items() if gpu.missing} == {"A30", "H800 SXM", "H20 141GB"}
    assert all(gpu.missing for gpu in gpus.values() if gpu.bandwidth is None)


def test_the_bandwidth_that_is_not_known_counts_as_the_slowest() -> None:
    found = gpu_named("NVIDIA H20")
    assert found is not None and found.name == "H20 141GB"


def test_no_type_has_two_rates_that_a_kernel_could_be_held_against() -> None:
    for gpu in known_gpus():
        assert not {"float16", "bfloat16"} & {*gpu.vector} & {*gpu.matrix}, gpu.name


def test_figures_are_possible() -> None:
    for gpu in known_gpus():
        re.compile(gpu.match)
        assert gpu.source and gpu.checked and gpu.architecture
        assert gpu.bandwidth is None or 100e9 < gpu.bandwidth < 10e12, gpu.name
        assert 4e9 < gpu.memory < 300e9, gpu.name
        peaks = {**gpu.matrix, **gpu.vector}
        assert set(peaks) <= {"float64", "float32", "tf32", "float16", "bfloat16", "float8", "int8"}, gpu.name
        assert all(1e12 <= peak <= 10e15 for peak in peaks.values()), gpu.name
        known = [gpu.matrix[name] for name in ("tf32", "bfloat16", "float8") if name in gpu.matrix]
        assert known == sorted(known), f"{gpu.name}: narrower types are not slower"
    names = [gpu.name for gpu in known_gpus()]
    assert len(names) == len(set(names))
