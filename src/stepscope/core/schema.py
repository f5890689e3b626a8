"""The core tables: what importers fill and analyses read.

Times are int64 nanoseconds since the Unix epoch where the source allows it, else since the source's own zero;
durations are int64 nanoseconds. Null means "not recorded", never zero. A row belongs to a (rank, pid); correlation
ids are unique only within a process. The data dictionary page is generated from this module.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import polars as pl

__all__ = ["LACKING", "TABLES", "Clock", "Column", "DataType", "Unit", "empty", "polars_schema"]

Unit = Literal["ns", "bytes", "ratio", "count", "watts", "GB/s", "FLOP", "FLOP/s", "money"]
Clock = Literal["trace", "run", "row"]
"""Which clock a moment is on: that of traces, the time line of a recorded run, or what `clock` of its row says."""
DataType = pl.DataType | type[pl.DataType]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a core table or of an analysis: its type, its unit (None for names and ids) and its meaning.

    A moment says which clock it is on; then its row leads to its place in the timeline.
    """

    name: str
    type: DataType
    unit: Unit | None
    meaning: str
    clock: Clock | None = None


def _ids(*more: Column) -> tuple[Column, ...]:
    return (
        Column("rank", pl.Int32, None, "rank of the process in the job; `processes.rank_source` says how it is known"),
        Column("pid", pl.String, None, "process id as the source writes it"),
        *more,
    )


_STACK = (
    Column("line", pl.Int64, None, "line of that frame"),
    Column("function", pl.String, None, "function of that frame"),
    Column("text", pl.String, None, "source line"),
    Column("expression", pl.String, None, "expression being called, where Python tells"),
    Column("call", pl.String, None, "library frame directly below: file:line function"),
    Column("leaf", pl.String, None, "innermost frame of all: file:line function"),
    Column("between", pl.List(pl.String), None, "library frames between call and leaf, outermost first: file function"),
    Column("frames", pl.List(pl.String), None, "all frames of the user's own code, outermost first"),
    Column("texts", pl.List(pl.String), None, "source lines of those frames; null: not recorded"),
)
"""Columns of a sampled stack, behind its `file`."""


def _span(clock: Clock) -> tuple[Column, ...]:
    return (
        Column("start", pl.Int64, "ns", "start time", clock),
        Column("end", pl.Int64, "ns", "end time, never before start", clock),
    )


_INDEX = Column("index", pl.Int64, None, "position of the event in its source, from 0")
_CORRELATION = Column("correlation", pl.Int64, None, "id that joins a launch with the device work it started")
_EXTERNAL = Column("external_id", pl.Int64, None, "profiler's own link to an operator; only a check, time decides")

LACKING = {
    "batch_tensors": "sizes of batches",
    "loader_spans": "times of data loading",
    "optimizers": "settings of the optimizer",
    "stacks": "line samples",
    "system": "load of the machine",
    "thread_times": "CPU times of Python threads",
    "transform_sizes": "sizes before and after transforms",
}
"""What a run without rows of a table lacks, in words; other tables by their name."""

TABLES: dict[str, tuple[Column, ...]] = {
    "steps": _ids(
        Column("step", pl.Int64, None, "number of the training step, from 0"),
        *_span("row"),
        Column("data_wait", pl.Int64, "ns", "time inside the training loader's next(); null: no loader was observed"),
        Column("forward", pl.Int64, "ns", "batch ready (or end of the previous backward) to start of backward"),
        Column("backward", pl.Int64, "ns", "time inside backward"),
        Column("optimizer", pl.Int64, "ns", "time inside optimizer steps, without backward calls of a closure"),
        Column("other", pl.Int64, "ns", "the rest, so that the five parts add up to end - start exactly"),
        Column("evaluation_wait", pl.Int64, "ns", "part of other: time in the next() of loaders that do not train"),
        Column("gc", pl.Int64, "ns", "time in Python's garbage collector, inside any of the parts"),
        Column("samples", pl.Int64, "count", "samples of the training loader; null: could not be counted"),
        Column("micro_batches", pl.Int64, "count", "backward calls in the step"),
        Column("device_duration", pl.Int64, "ns", "step time on the device from CUDA events; null without CUDA"),
        Column("clock", pl.String, None, "which clock the times are from: host, host-backward, kineto"),
        Column("tags", pl.List(pl.String), None, "traced, tracing, evaluation, epoch-start, epoch-end, …"),
        Column("weight", pl.Int64, "count", "steps of a long run that this row, their mean, stands for; null: itself"),
    ),
    "host": _ids(
        Column("thread", pl.String, None, "thread id as the source writes it"),
        _INDEX,
        Column("name", pl.String, None, "operator, annotation, call or frame"),
        Column("kind", pl.String, None, "operator, annotation, runtime, driver, python, overhead or other"),
        *_span("trace"),
        _CORRELATION,
        _EXTERNAL,
        Column("sequence", pl.Int64, None, "autograd sequence number: joins backward with forward operators"),
        Column("forward_thread", pl.Int64, None, "thread of the forward operator, of a backward operator"),
        Column("input_dims", pl.String, None, "shapes of the inputs, JSON; needs recorded shapes"),
        Column("input_types", pl.String, None, "types of the inputs, JSON; needs recorded shapes"),
        Column("concrete_inputs", pl.String, None, "inputs that are no tensors, JSON of texts; needs recorded shapes"),
        Column("call_stack", pl.String, None, "Python call stack, frames separated by ';', innermost first"),
        Column("python_id", pl.Int64, None, "id of a Python frame within the trace"),
        Column("python_parent_id", pl.Int64, None, "python_id of the calling frame"),
        Column("module_id", pl.Int64, None, "instance of an nn.Module frame"),
    ),
    "device": _ids(
        Column("device", pl.Int32, None, "index of the device"),
        Column("stream", pl.String, None, "stream or queue"),
        _INDEX,
        Column("name", pl.String, None, "kernel, copy or set"),
        Column(
            "kind",
            pl.String,
            None,
            "kernel, memcpy, memset: work; accelerator: work in another form (MTIA); annotation, sync, other: no work",
        ),
        *_span("trace"),
        _CORRELATION,
        _EXTERNAL,
        Column("bytes", pl.Int64, "bytes", "size of a copy or set"),
        Column("bandwidth", pl.Float64, "GB/s", "bandwidth of a copy as the profiler gives it"),
        Column("grid", pl.String, None, "launch grid, [x, y, z]"),
        Column("block", pl.String, None, "launch block, [x, y, z]"),
        Column("registers", pl.Int64, "count", "registers per thread"),
        Column("shared_memory", pl.Int64, "bytes", "static and dynamic shared memory per block"),
        Column("blocks_per_sm", pl.Float64, "count", "blocks of the grid divided by the number of SMs"),
        Column("warps_per_sm", pl.Float64, "count", "warps of the grid divided by the number of SMs"),
        Column("occupancy", pl.Float64, "ratio", "estimated achieved occupancy, 0 to 1"),
        Column("collective", pl.String, None, "collective operation, where the trace names it"),
        Column("collective_sequence", pl.Int64, None, "number of a collective in its group; the same on every rank"),
        Column("group", pl.String, None, "process group of a collective"),
        Column("group_ranks", pl.String, None, "ranks of that group, JSON as the source writes it"),
        Column("group_size", pl.Int64, "count", "ranks in that group"),
        Column("group_description", pl.String, None, "what the job calls that group"),
        Column("source_rank", pl.Int64, None, "rank that a receive is from"),
        Column("destination_rank", pl.Int64, None, "rank that a send goes to"),
        Column("dtype", pl.String, None, "element type of a collective"),
        Column("in_elements", pl.Int64, "count", "elements that go into a collective"),
        Column("out_elements", pl.Int64, "count", "elements that come out of a collective"),
        Column("graph_node", pl.Int64, None, "node of a replayed device graph"),
        Column("waits_for_record", pl.Int64, None, "synchronization: correlation of the record of its event"),
        Column("waits_for_stream", pl.Int64, None, "synchronization: stream of that record"),
    ),
    "memory": _ids(
        Column("thread", pl.String, None, "thread of the allocation or free"),
        _INDEX,
        Column("time", pl.Int64, "ns", "time of the event", "trace"),
        Column("device_type", pl.Int32, None, "0 CPU, 1 CUDA"),
        Column("device", pl.Int32, None, "index of the device, -1 for the CPU"),
        Column("bytes", pl.Int64, "bytes", "positive: allocated, negative: freed"),
        Column("address", pl.Int64, None, "address of the block"),
        Column("total_allocated", pl.Int64, "bytes", "allocated on this device after the event"),
        Column("total_reserved", pl.Int64, "bytes", "held by the allocator after the event"),
        Column("category", pl.String, None, "what the block holds, where the source says it: parameter, activation, …"),
        Column("call_stack", pl.String, None, "stack of the event, frames separated by ';', innermost first"),
    ),
    "flows": _ids(
        Column("thread", pl.String, None, "thread or stream of this end of the arrow"),
        _INDEX,
        Column("time", pl.Int64, "ns", "time of this end of the arrow", "trace"),
        Column("id", pl.Int64, None, "id that the two ends share"),
        Column("kind", pl.String, None, "fwdbwd, ac2g, …"),
        Column("begins", pl.Boolean, None, "true at the tail of the arrow"),
    ),
    "counters": _ids(
        _INDEX,
        Column("name", pl.String, None, "counter"),
        Column("time", pl.Int64, "ns", "time of the sample", "trace"),
        Column("value", pl.Float64, None, "value, in the counter's own unit"),
    ),
    "instants": _ids(
        _INDEX,
        Column("name", pl.String, None, "marker"),
        Column("time", pl.Int64, "ns", "time of the marker", "trace"),
    ),
    "threads": _ids(
        Column("thread", pl.String, None, "thread id"),
        Column("name", pl.String, None, "name of the thread"),
    ),
    "stacks": _ids(
        Column("time", pl.Int64, "ns", "time of the sample", "run"),
        Column("step", pl.Int64, None, "step in flight"),
        Column("phase", pl.String, None, "data_wait, forward, backward, optimizer or other"),
        Column("weight", pl.Int64, "ns", "time that the sample stands for"),
        Column("collector", pl.Boolean, None, "true: the garbage collector was running"),
        Column("file", pl.String, None, "file of the innermost frame of the user's own code"),
        *_STACK,
    ),
    "thread_times": _ids(
        Column("thread", pl.String, None, "name of a Python thread of a process that trains"),
        Column("training", pl.Boolean, None, "true: the thread that trains; it has a row where another one was busy"),
        Column("time", pl.Int64, "ns", "end of the time that the row is about", "run"),
        Column("span", pl.Int64, "ns", "length of that time, about a second"),
        Column("cpu", pl.Int64, "ns", "CPU time of the thread in it"),
        Column("ready", pl.Int64, "ns", "time in it in which the thread was ready and had no core"),
        Column("file", pl.String, None, "file of the innermost frame of the user's own code at its end"),
        *_STACK,
    ),
    "sources": _ids(
        Column("file", pl.String, None, "file of the user's own code"),
        Column("line", pl.Int64, None, "number of the line, from 1"),
        Column("text", pl.String, None, "that line as it was when the job ran; lines near recorded places are kept"),
    ),
    "loaders": _ids(
        Column("loader", pl.Int64, None, "number of the DataLoader in its process"),
        Column("train", pl.Boolean, None, "true: its batches went into a backward"),
        Column("dataset", pl.String, None, "class of the data set"),
        Column("dataset_file", pl.String, None, "file of that class"),
        Column("dataset_line", pl.Int64, None, "line of that class"),
        Column("collate", pl.String, None, "collate function"),
        Column("collate_file", pl.String, None, "file of the collate function"),
        Column("collate_line", pl.Int64, None, "line of the collate function"),
        Column("batch_size", pl.Int64, "count", "samples in a batch; null: a batch sampler of the user's own"),
        Column("num_workers", pl.Int64, "count", "worker processes"),
        Column("prefetch_factor", pl.Int64, "count", "batches kept ready by each worker"),
        Column("pin_memory", pl.Boolean, None, "batches are copied to pinned memory"),
        Column("persistent_workers", pl.Boolean, None, "workers live on between epochs"),
        Column(
            "shards",
            pl.Boolean,
            None,
            "code of a data set that is iterated asks which worker it is in; null: not iterated, or no workers",
        ),
        Column(
            "made_file", pl.String, None, "file of your code that calls DataLoader; null: not looked for, or unknown"
        ),
        Column("made_line", pl.Int64, None, "line of that call"),
        Column("made_by", pl.String, None, "library that made the loader, or made yours anew; null: none"),
    ),
    "loader_spans": _ids(
        Column("worker", pl.Int32, None, "number of the worker; null: the process that trains"),
        Column("loader", pl.Int64, None, "number of the DataLoader as in `loaders`; null: it is not in there"),
        Column("iterator", pl.Int64, None, "number of the loader's iterator; null: of a loader inside a worker"),
        Column("epoch", pl.Int64, None, "how often a lasting iterator had begun again; `batch` begins anew with it"),
        Column("batch", pl.Int64, None, "number of the batch in the epoch of the iterator, from 0"),
        Column("sample", pl.Int64, None, "index in the data set; null: not one sample, or one without an index"),
        Column("stage", pl.String, None, "what was done: index wait, fetch, sample, collate, put, …; see the page"),
        Column("name", pl.String, None, "class or function that did it; null: torch itself"),
        Column("file", pl.String, None, "file of that class or function"),
        Column("line", pl.Int64, None, "its line"),
        *_span("run"),
        Column("cpu", pl.Int64, "ns", "CPU time of the thread; null: not read"),
        Column("core_wait", pl.Int64, "ns", "of a fetch: time that it waited for a core; null: not read"),
        Column("process_cpu", pl.Int64, "ns", "of a collate: CPU time of its process in its fetch; null: not read"),
        Column("read_file", pl.Int64, None, "of a read: a number that stands for the file; null: no file with a name"),
        Column(
            "count", pl.Int64, "count", "samples; of a sending: bytes; of the first serializing: threads of the process"
        ),
        Column("weight", pl.Int64, "count", "spans that this one stands for, itself included"),
        Column("failed", pl.Boolean, None, "true: it raised an exception, or the data set ended in it"),
    ),
    "transform_sizes": _ids(
        Column("loader", pl.Int64, None, "number of the DataLoader as in `loaders`; null: it is not in there"),
        Column("name", pl.String, None, "class or function of a transform; a row is one of its first calls"),
        Column("file", pl.String, None, "file of that class or function"),
        Column("line", pl.Int64, None, "its line"),
        Column("before", pl.Int64, "count", "numbers in the sample that it was given"),
        Column("after", pl.Int64, "count", "numbers in what it returned"),
        Column("bytes", pl.Int64, "bytes", "of the larger of the two; null: not recorded"),
    ),
    "batch_tensors": _ids(
        Column("loader", pl.Int64, None, "number of the DataLoader as in `loaders`; null: it is not in there"),
        Column(
            "worker", pl.Int32, None, "number of the worker; a row is a tensor or array in its first recorded batch"
        ),
        Column("type", pl.String, None, "kind of number: torch.float32 of a tensor, float32 of an array, …"),
        Column("bytes", pl.Int64, "bytes", "size of it"),
    ),
    "clock_readings": _ids(
        Column("source", pl.String, None, "who read: start, window N, loader (the process that trains) or worker N"),
        Column("time", pl.Int64, "ns", "when, on the time line of the run: one for all processes of the host", "run"),
        Column("offset", pl.Int64, "ns", "the wall clock, which is that of traces, less that time line"),
        Column("error", pl.Int64, "ns", "how far off the offset may be, both clocks not being read at once"),
    ),
    "worker_stacks": _ids(
        Column("worker", pl.Int32, None, "number of the DataLoader worker"),
        Column("loader", pl.Int64, None, "number of its DataLoader as in `loaders`; null: it is not in there"),
        Column("time", pl.Int64, "ns", "time of the sample", "run"),
        Column("weight", pl.Int64, "ns", "time that the sample stands for"),
        Column("file", pl.String, None, "file of the innermost frame of the user's own code that makes the batch"),
        *_STACK,
    ),
    "optimizers": _ids(
        Column("name", pl.String, None, "class"),
        Column("module", pl.String, None, "module of the class"),
        Column("groups", pl.Int64, "count", "parameter groups"),
        Column("parameters", pl.Int64, "count", "parameter tensors"),
        Column("elements", pl.Int64, "count", "elements of all parameters"),
        Column("dtype", pl.String, None, "type of most elements: float32, bfloat16, …"),
        Column("foreach", pl.Boolean, None, "the foreach option; null: left to torch"),
        Column("fused", pl.Boolean, None, "the fused option; null: left to torch"),
    ),
    "graph_breaks": _ids(
        Column("file", pl.String, None, "file of the user's innermost line"),
        Column("line", pl.Int64, None, "line at which torch.compile ended a graph"),
        Column("function", pl.String, None, "function of the line"),
        Column("reason", pl.String, None, "why, as torch says it"),
        Column("count", pl.Int64, "count", "how often, over all compilations of the code"),
    ),
    "system": (
        Column("time", pl.Int64, "ns", "time of the sample", "run"),
        Column("rank", pl.Int32, None, "rank that was measured; null: the machine or the whole job"),
        Column(
            "what",
            pl.String,
            None,
            "system CPU, job CPU, job memory, GPU n utilization, GPU n memory or GPU n power. Other CPU is that of "
            "processes outside the job. Core wait is the share of time in which a rank's main thread had no core. "
            "Helper core wait is the same, summed over processes of the job that do not train. Page faults are those "
            "of a rank that need no disk; kernel CPU is what the kernel computes for it.",
        ),
        Column("value", pl.Float64, None, "value in the unit of the next column"),
        Column("unit", pl.String, None, "ratio, cores, bytes, watts or per second"),
    ),
    "windows": _ids(
        Column("window", pl.Int64, None, "number of the traced window"),
        Column("status", pl.String, None, "recorded, stood back, abandoned or failed"),
        Column("reason", pl.String, None, "why it was not recorded whole"),
        Column("first_step", pl.Int64, None, "first traced step"),
        Column("last_step", pl.Int64, None, "last traced step"),
        Column("trace", pl.String, None, "file of the trace"),
        Column("cost", pl.Int64, "ns", "time that starting, stopping and writing the trace took"),
    ),
    "trials": (
        Column("setting", pl.String, None, "what a trial of a tuning gave the loaders; `as it is`: nothing"),
        Column("num_workers", pl.Int64, "count", "workers that it gave them; null: the script's own"),
        Column("prefetch_factor", pl.Int64, "count", "batches that each worker keeps ready; null: the script's own"),
        Column("persistent_workers", pl.Boolean, None, "workers last between epochs; null: the script's own"),
        Column("pin_memory", pl.Boolean, None, "pinned memory; null: the script's own"),
        Column("step", pl.Float64, "ns", "mean step measured; null: none"),
        Column("low", pl.Float64, "ns", "lower end of its 95 % interval; null: too few steps"),
        Column("high", pl.Float64, "ns", "upper end of it"),
        Column("data_wait", pl.Float64, "ratio", "share of the step that waited for data"),
        Column("trials", pl.Int64, "count", "how often it was tried"),
        Column("steps", pl.Int64, "count", "steps measured"),
        Column("left_out", pl.String, None, "why there are no steps"),
    ),
    "devices": (
        Column("rank", pl.Int32, None, "rank whose source describes the device"),
        Column("device", pl.Int32, None, "index of the device"),
        Column("name", pl.String, None, "product name; null when the source leaves it blank"),
        Column("memory", pl.Int64, "bytes", "memory of the device"),
        Column("capability", pl.String, None, "compute capability, major.minor"),
        Column("sms", pl.Int64, "count", "streaming multiprocessors or compute units"),
        Column("max_threads_per_sm", pl.Int64, "count", "threads that one SM can hold"),
        Column("warp_size", pl.Int64, "count", "threads in a warp or wavefront"),
    ),
    "processes": _ids(
        Column("rank_source", pl.String, None, "where the rank is from: trace, file name, environment, assumed"),
        Column("world_size", pl.Int32, "count", "ranks in the job"),
        Column("host", pl.String, None, "host name"),
        Column("framework", pl.String, None, "torch 2.13.0+cpu, …"),
        Column("python", pl.String, None, "version of Python"),
        Column("backend", pl.String, None, "communication backend"),
        Column("threads", pl.Int64, "count", "intra-operator threads"),
        Column("affinity", pl.Int64, "count", "cores that the training thread may run on"),
        Column("probe", pl.String, None, "hooks of the step clock: compiled or python"),
        Column("matmul_precision", pl.String, None, "float32 matmul precision: highest, high or medium"),
        Column("probe_cost", pl.Int64, "ns", "what the probe costs each step, measured in the process"),
        Column("source", pl.String, None, "file or folder the process was read from"),
    ),
    "meta": (
        Column("source", pl.String, None, "file or folder"),
        Column("key", pl.String, None, "what it is"),
        Column("value", pl.String, None, "its value, JSON where it is not a word"),
    ),
    "skipped": (
        Column("source", pl.String, None, "file or folder"),
        Column("reason", pl.String, None, "why something was left out or repaired"),
        Column("count", pl.Int64, "count", "how often"),
    ),
}


def polars_schema(columns: tuple[Column, ...]) -> dict[str, DataType]:
    """Names and types as Polars wants them."""
    return {column.name: column.type for column in columns}


@cache
def empty(table: str) -> pl.DataFrame:
    """A core table without rows; the same one each time, for most tables of a run have none."""
    return pl.DataFrame(schema=polars_schema(TABLES[table]))
