"""Small traces written here, and ways to damage a trace: of its bytes, its text and its values."""

import gzip
import json
import random
import re
import zlib
from collections.abc import Callable
from typing import Any

__all__ = ["damaged", "own_traces"]

MOST_DAMAGE = 3  # kinds at once: more leave nothing that is worth reading
_HUGE = (2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63) - 1)
_WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    "x",
    "",
    "12",
    [],
    {},
    [[]],
    {"a": 1},
    "NaN",
    "1e300",
    "\ud83d\ude00",
)
_NAMES = (
    "ProfilerStep#1", "ProfilerStep#99999999999999999999", "ProfilerStep#", "aten::mm", "Optimizer.step#SGD.step",
    "autograd::engine::evaluate_function: MmBackward0", "cudaMalloc", "cudaDeviceSynchronize", "[memory]", "",
    "ncclDevKernel_AllReduce", "enumerate(DataLoader)#_X.__next__", "nn.Module: A_0",
    "Memcpy HtoD (Pageable -> Device)",
    "gloo:all_reduce", "a/b.py(3): f",
)  # fmt: skip
_CATEGORIES = (
    "cpu_op", "user_annotation", "kernel", "gpu_memcpy", "cuda_runtime", "python_function", "ac2g", "gpu_memset",
    "cuda_driver", "Kernel", "Operator", "mtia_ccp_events", "cuda_sync", "gpu_user_annotation",
)  # fmt: skip
_MOST_TIME = 1e18  # larger ones are damage that was done already
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
Damage = Callable[[bytes, random.Random], bytes]


def own_traces() -> list[tuple[str, bytes]]:
    """Small traces of a GPU job, a CPU job, an old format and one of several ranks, as names and bytes."""
    return [(f"{name}.json", json.dumps(trace).encode()) for name, trace in (
        ("gpu", _trace(gpu=True)), ("cpu", _trace(gpu=False)), ("old", _old()),
        ("rank", {**_trace(gpu=True), "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2}}),
    )]  # fmt: skip


def _event(cat: str, name: str, ts: float, dur: float, tid: object = 1, **args: object) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 10, "tid": tid, "ts": ts, "dur": dur, "args": args}


def _trace(*, gpu: bool) -> dict[str, Any]:
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 10, "args": {"name": "python"}}]
    for step in range(5):
        start = 1000.5 + step * 4000
        events += [
            _event("user_annotation", f"ProfilerStep#{step}", start, 4000),
            _event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start + 10, 900),
            _event("python_function", "train.py(7): step", start, 3900, **{"Python id": 2 * step + 1}),
            _event("python_function", "nn.Module: Linear_0", start + 950, 700,
                   **{"Python id": 2 * step + 2, "Python parent id": 2 * step + 1, "Python module id": 0}),
            _event("cpu_op", "aten::linear", start + 1000, 600, **{"External id": 9 * step + 1,
                   "Sequence number": step, "Input Dims": [[8, 16], [4, 16]], "Input type": ["float", "float"]}),
            _event("cpu_op", "aten::mm", start + 1100, 300, **{"External id": 9 * step + 2,
                   "Input Dims": [[8, 16], [16, 4]], "Input type": ["float", "float"],
                   "Call stack": "train.py(7): step"}),
            _event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", start + 1800, 700, 2,
                   **{"Sequence number": step, "Fwd thread id": 1}),
            _event("user_annotation", "Optimizer.step#SGD.step", start + 2600, 800),
            {"ph": "i", "name": "[memory]", "pid": 10, "tid": 1, "ts": start + 1050, "args": {"Device Type": int(gpu),
             "Device Id": 0 if gpu else -1, "Bytes": 4096, "Addr": 64 + step, "Total Allocated": 4096 * step + 4096}},
        ]  # fmt: skip
        if gpu:
            events += _on_gpu(start, 100 * step)
    return {"schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000 * 10**9, "deviceProperties": [
        {"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42 * 10**9, "numSms": 108, "warpSize": 32}
    ] if gpu else [], "traceEvents": events}  # fmt: skip


def _on_gpu(start: float, first: int) -> list[dict[str, Any]]:
    found = []
    calls = (
        ("cudaMemcpyAsync", "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"), ("cudaMalloc", "", ""),
        ("cudaLaunchKernel", "ampere_sgemm_128x64_tn", "kernel"), ("cudaLaunchKernel", "elementwise_kernel", "kernel"),
        ("cudaLaunchKernel", "ncclDevKernel_AllReduce_Sum_f32", "kernel"), ("cudaDeviceSynchronize", "", ""),
    )  # fmt: skip
    for at, (call, work, cat) in enumerate(calls):
        found.append(_event("cuda_runtime", call, start + 1120 + 40 * at, 20, correlation=first + at + 1))
        if work:
            args = {"device": 0, "stream": 7, "correlation": first + at + 1, "bytes": 4096, "grid": [8, 1, 1],
                    "block": [128, 1, 1], "blocks per SM": 0.5, "est. achieved occupancy %": 12}  # fmt: skip
            event = _event(cat, work, start + 1400 + 300 * at, 250, 7, **args)
            found += [{**event, "pid": 0}, {"ph": "s", "id": first + at + 1, "cat": "ac2g", "name": "ac2g", "pid": 10,
                      "tid": 1, "ts": start + 1120 + 40 * at}]  # fmt: skip
    return found


def _old() -> dict[str, Any]:
    """As torch wrote before 1.10: other categories, no base, memory without addresses."""
    trace = _trace(gpu=True)
    names = {"cpu_op": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime", "gpu_memcpy": "Memcpy"}
    for event in trace["traceEvents"]:
        event["cat"] = names.get(event.get("cat", ""), event.get("cat", ""))
        for key in ("Addr", "Total Allocated"):
            event["args"].pop(key, None) if "args" in event else None
    return {"schemaVersion": 1, "traceEvents": trace["traceEvents"]}


def damaged(trace: bytes, chance: random.Random) -> bytes:
    """The trace with some damage; its values first, then its text, then what it is packed in."""
    packed = trace.startswith(b"\x1f\x8b")
    raw = _unpacked(trace) if packed else trace
    for _ in range(chance.randint(1, MOST_DAMAGE)):
        raw = chance.choice((*_OF_VALUES, *_OF_VALUES, *_OF_TEXT))(raw, chance)
    if packed or chance.random() < 0.1:
        raw = gzip.compress(raw, 1, mtime=0)
        if chance.random() < 0.3:
            raw = chance.choice((_cut, _flips))(raw, chance)
    return raw


def _unpacked(trace: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(trace)
    except zlib.error:
        return trace


def _cut(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(len(raw) + 1)]


def _flips(raw: bytes, chance: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(min(len(changed), chance.choice((1, 3, 30, 300)))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _number_words(raw: bytes, chance: random.Random) -> bytes:
    """Some numbers become NaN, Infinity, huge, negative or text."""
    words = (b"NaN", b"Infinity", b"-Infinity", b"-1", b"0", b"1e308", b"1e5", b'"12"', b"null", b"9" * 400,
             *(str(huge).encode() for huge in _HUGE))  # fmt: skip
    share, word = chance.choice((0.002, 0.02, 0.3)), chance.choice(words)
    return _NUMBER.sub(lambda found: word if chance.random() < share else found[0], raw)


def _nested(raw: bytes, chance: random.Random) -> bytes:
    depth, at = chance.choice((10, 500, 5000)), raw.find(b":", chance.randrange(len(raw) + 1))
    return raw if at < 0 else raw[: at + 1] + b"[" * depth + b"]" * depth + b"," + raw[at + 1 :]


def _not_utf8(raw: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(raw) + 1)
    return raw[:at] + chance.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\\ud800", b"\x1b[2J")) + raw[at:]


def _encoded(raw: bytes, chance: random.Random) -> bytes:
    text = raw.decode("utf-8", "replace")
    return chance.choice((
        lambda: text.encode("utf-16"), lambda: b"\xef\xbb\xbf" + raw, lambda: text.encode("utf-16-le"),
        lambda: raw.replace(b"\n", b"\r\n"), lambda: text.encode("utf-32"),
    ))()  # fmt: skip


def _spliced(raw: bytes, chance: random.Random) -> bytes:
    first, last = sorted(chance.randrange(len(raw) + 1) for _ in range(2))
    return chance.choice((raw + raw, raw[:last] + raw[first:], raw[:first] + raw[last:], raw + b"\0" * 5000))


def _of_events(change: Callable[[list[Any], random.Random], object]) -> Damage:
    """Damage of the list of events as values; a text that is no JSON any more stays as it is."""

    def damage(raw: bytes, chance: random.Random) -> bytes:
        try:
            trace = json.loads(raw)
        except (ValueError, RecursionError):
            return raw
        events = trace.get("traceEvents") if isinstance(trace, dict) else trace
        if isinstance(events, list) and events:
            change(events, chance)
        return json.dumps(trace).encode()

    return damage


def _some(events: list[Any], chance: random.Random) -> list[dict[str, Any]]:
    share = chance.choice((0.02, 0.2, 1.0))
    found = [event for event in events if isinstance(event, dict) and chance.random() < share]
    return found or [event for event in events if isinstance(event, dict)][:1]


def _wrong_member(events: list[Any], chance: random.Random) -> None:
    key = chance.choice(("pid", "tid", "ts", "dur", "name", "cat", "ph", "args", "id"))
    value = chance.choice((*_WRONG, *_HUGE))
    for event in _some(events, chance):
        event[key] = value


def _no_member(events: list[Any], chance: random.Random) -> None:
    key = chance.choice(("pid", "tid", "ts", "dur", "name", "cat", "ph", "args"))
    for event in _some(events, chance):
        event.pop(key, None)


def _wrong_argument(events: list[Any], chance: random.Random) -> None:
    keys = sorted({key for event in events if isinstance(event, dict) and isinstance(event.get("args"), dict)
                   for key in event["args"]})  # fmt: skip
    if not keys:
        return
    key, value, drop = chance.choice(keys), chance.choice((*_WRONG, *_HUGE)), chance.random() < 0.3
    for event in _some(events, chance):
        arguments = event.get("args")
        if isinstance(arguments, dict) and key in arguments:
            arguments.pop(key) if drop else arguments.update({key: value})


def _times(events: list[Any], chance: random.Random) -> None:
    kind, by = chance.choice(("same", "back", "zero", "shift", "negative", "scale")), chance.uniform(-1e6, 1e6)
    for event in _some(events, chance):
        ts, dur = event.get("ts"), event.get("dur")
        if not isinstance(ts, int | float) or abs(ts) > _MOST_TIME:
            continue
        long = dur if isinstance(dur, int | float) and abs(dur) < _MOST_TIME else 0
        times = {"same": (1000, long), "back": (ts + long, long), "zero": (ts, 0), "shift": (ts + by, long),
                 "negative": (ts, -long), "scale": (ts, long * chance.choice((0.001, 100, 1e9)))}[kind]  # fmt: skip
        event.update(ts=times[0], **({"dur": times[1]} if dur is not None else {}))


def _renamed(events: list[Any], chance: random.Random) -> None:
    key, words = chance.choice((("name", _NAMES), ("cat", _CATEGORIES)))
    word = chance.choice(words)
    for event in _some(events, chance):
        event[key] = word


def _doubled(events: list[Any], chance: random.Random) -> None:
    more = [dict(event) for event in _some(events, chance)]
    if chance.random() < 0.5:
        tid = chance.choice((1, 99, "x"))
        more = [{**event, "tid": tid} for event in more]
    events += more
    if chance.random() < 0.5:
        chance.shuffle(events)


def _fewer(events: list[Any], chance: random.Random) -> None:
    keep = chance.random()
    events[:] = [event for event in events if chance.random() < keep]


_OF_TEXT: tuple[Damage, ...] = (_cut, _flips, _number_words, _nested, _not_utf8, _encoded, _spliced)
_OF_VALUES: tuple[Damage, ...] = tuple(map(_of_events, (
    _wrong_member, _no_member, _wrong_argument, _times, _renamed, _doubled, _fewer,
)))  # fmt: skip
