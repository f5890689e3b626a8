"""A small run with a bit of everything, and the answers of the TensorBoard plugin for traces of the corpus."""

import os
from pathlib import Path

import pytest

from stepscope.core.run import Run
from stepscope.core.synth import Synth

PLUGIN_LARGE = 900_000  # bytes of a packed trace that takes more than about a second to read


def training_on_a_gpu(synth: Synth, *, first_step: int = 5, at: float = 0, rank: int = 0) -> None:
    """Two steps of 100 ms: load 0-20, forward to 50, backward on another thread to 70, optimizer 75-90, .item() 92."""
    for step in range(2):
        t, c = at + 100 * step, 100 * rank + 10 * step
        synth.host(f"ProfilerStep#{first_step + step}", "annotation", t, t + 100, rank=rank)
        synth.host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "annotation", t, t + 20, rank=rank)
        synth.host("train.py(10): step", "python", t + 1, t + 99, rank=rank)
        synth.host("torch/_tensor.py(5): item", "python", t + 91, t + 98, rank=rank)
        synth.host("aten::mm", "operator", t + 30, t + 40, external_id=c + 1, rank=rank)
        synth.host("cudaLaunchKernel", "runtime", t + 32, t + 34, correlation=c + 1, external_id=c + 1, rank=rank)
        synth.kernel(
            t + 35, t + 60, "volta_fp16_s884gemm", correlation=c + 1, blocks_per_sm=0.5, occupancy=0.25, rank=rank
        )
        backward = "autograd::engine::evaluate_function: MmBackward0"
        synth.host(backward, "operator", t + 50, t + 70, thread="2", rank=rank)
        synth.host("cuLaunchKernelEx", "driver", t + 52, t + 53, thread="2", correlation=c + 2, rank=rank)
        synth.kernel(t + 60, t + 80, "ncclDevKernel_AllReduce", correlation=c + 2, blocks_per_sm=2.0, rank=rank)
        synth.host("Optimizer.step#SGD.step", "annotation", t + 75, t + 90, rank=rank)
        synth.host("aten::item", "operator", t + 92, t + 98, rank=rank)
        synth.host("aten::_local_scalar_dense", "operator", t + 93, t + 97, rank=rank)
        synth.host("cudaMemcpyAsync", "runtime", t + 93, t + 94, correlation=c + 3, rank=rank)
        synth.host("cudaStreamSynchronize", "runtime", t + 94, t + 96, correlation=c + 4, rank=rank)
        synth.kernel(t + 93, t + 95, "Memcpy DtoH", kind="memcpy", correlation=c + 3, bytes=4, rank=rank)


@pytest.fixture
def gpu_run() -> Run:
    """Two traced steps on each of two ranks, six steps of the probe on a third, and samples of the system."""
    synth = Synth()
    for rank in (0, 1):
        training_on_a_gpu(synth, rank=rank)
        synth.add("devices", rank=rank, device=0, name="V100", memory=34_000_000_000, capability="7.0", sms=80)
    for step in range(6):
        tags = ("traced",) if step == 4 else ()
        synth.step(step, 50 * step, 50 * step + 40, data_wait=10, forward=5, backward=5, samples=8, tags=tags, rank=2)
        synth.sample(step, 50 * step + 35, 40, "other", "train.py", 12, rank=2)
    synth.add("windows", rank=2, window=0, status="recorded", first_step=4, last_step=4, cost=7)
    synth.add("system", time=1, what="job CPU", value=1.5, unit="cores")
    return synth.run()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with an argument `plugin_golden` once for each answer of the plugin (a path below golden/tb)."""
    if "plugin_golden" not in metafunc.fixturenames:
        return
    root = Path(os.environ.get("STEPSCOPE_CORPUS", Path(__file__).resolve().parents[3] / "shared"))
    files = sorted((root / "golden" / "tb").rglob("*.json"))
    parameters = []
    for file in files:
        name = str(file.relative_to(root / "golden" / "tb")).removesuffix(".json")
        if name.endswith("communication_operators"):
            continue
        large = any(trace.stat().st_size > PLUGIN_LARGE for trace in (root / "traces").glob(f"{name}*"))
        parameters.append(pytest.param(name, marks=[pytest.mark.slow] if large else [], id=name))
    if not parameters:
        parameters = [pytest.param("", marks=pytest.mark.skip(reason=f"no answers of the plugin in {root}"))]
    metafunc.parametrize("plugin_golden", parameters)
