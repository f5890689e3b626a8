"""Which members of an event fill which columns: what the scanner is told to read, and the reader in Python follows."""

from typing import NamedTuple

from stepscope.importers.kineto.events import DEVICE_KINDS

__all__ = [
    "DEVICE_DECIMALS", "DEVICE_NUMBERS", "DEVICE_TEXTS", "EXTERNAL_ID", "HOST_NUMBERS", "HOST_TEXTS", "LAYOUT",
    "MEMORY_NUMBERS", "METADATA_TEXTS", "Argument", "Layout", "TableLayout",
]  # fmt: skip


class Argument(NamedTuple):
    """A column, and the arguments that fill it: the first that an event has."""

    column: str
    keys: tuple[str, ...]


EXTERNAL_ID = Argument("external_id", ("External id", "external id"))
HOST_NUMBERS = (
    Argument("correlation", ("correlation",)),
    EXTERNAL_ID,
    Argument("sequence", ("Sequence number",)),
    Argument("forward_thread", ("Fwd thread id",)),
    Argument("python_id", ("Python id",)),
    Argument("python_parent_id", ("Python parent id",)),
    Argument("module_id", ("Python module id",)),
)
HOST_TEXTS = (
    Argument("input_dims", ("Input Dims", "Input dims")),
    Argument("input_types", ("Input type",)),
    Argument("concrete_inputs", ("Concrete Inputs",)),
    Argument("call_stack", ("Call stack",)),
)
DEVICE_NUMBERS = (
    EXTERNAL_ID,
    Argument("correlation", ("correlation",)),
    Argument("bytes", ("bytes",)),
    Argument("registers", ("registers per thread",)),
    Argument("shared_memory", ("shared memory",)),
    Argument("in_elements", ("In msg nelems",)),
    Argument("out_elements", ("Out msg nelems",)),
    Argument("graph_node", ("graph node id",)),
    Argument("collective_sequence", ("Seq",)),
    Argument("group_size", ("Group size",)),
    Argument("source_rank", ("Src Rank",)),
    Argument("destination_rank", ("Dst Rank",)),
    Argument("waits_for_record", ("wait_on_cuda_event_record_corr_id",)),
    Argument("waits_for_stream", ("wait_on_stream",)),
)
DEVICE_TEXTS = (
    Argument("grid", ("grid",)),
    Argument("block", ("block",)),
    Argument("collective", ("Collective name",)),
    Argument("group", ("Process Group Name",)),
    Argument("group_ranks", ("Process Group Ranks",)),
    Argument("group_description", ("Process Group Description",)),
    Argument("dtype", ("dtype",)),
)
DEVICE_DECIMALS = (
    Argument("bandwidth", ("memory bandwidth (GB/s)",)),
    Argument("blocks_per_sm", ("blocks per SM",)),
    Argument("warps_per_sm", ("warps per SM",)),
    Argument("occupancy", ("est. achieved occupancy %",)),
)
MEMORY_NUMBERS = (
    Argument("device_type", ("Device Type",)),
    Argument("device", ("Device Id",)),
    Argument("bytes", ("Bytes",)),
    Argument("address", ("Addr",)),
    Argument("total_allocated", ("Total Allocated",)),
    Argument("total_reserved", ("Total Reserved",)),
)
METADATA_TEXTS = (Argument("name_given", ("name",)), Argument("labels", ("labels",)))

_DEVICE = Argument("device", ("device",))
_STREAM = Argument("stream", ("stream",))
_NUMBER, _TIME, _TEXT = range(3)
_EVENT = (
    ("ph", _TEXT), ("cat", _TEXT), ("name", _TEXT), ("pid", _TEXT), ("tid", _TEXT), ("ts", _TIME), ("dur", _TIME),
    ("id", _NUMBER),
)  # fmt: skip
_NO_DICTIONARY = -1


class TableLayout(NamedTuple):
    """A table of the scanner: its number there and the numbers of its columns; `index` is the last."""

    number: int
    columns: dict[str, int]


class Layout(NamedTuple):
    """What `native._scanner.Columns` is made of, and where everything is then: tables, and dictionaries by column."""

    slots: list[tuple[str, int, int]]
    columns: list[list[tuple[int, int]]]
    categories: list[bytes]
    tables: dict[str, TableLayout]
    dictionaries: dict[str, int]


_TABLES: dict[str, tuple[tuple[str, ...], tuple[Argument, ...]]] = {
    "host": (("name", "cat", "pid", "tid", "ts", "dur"), (*HOST_NUMBERS, *HOST_TEXTS)),
    "device": (
        ("name", "cat", "pid", "tid", "ts", "dur"),
        (_DEVICE, _STREAM, *DEVICE_NUMBERS, *DEVICE_TEXTS, *DEVICE_DECIMALS),
    ),
    "memory": (("pid", "tid", "ts"), MEMORY_NUMBERS),
    "instants": (("name", "pid", "ts"), ()),
    "flows": (("ph", "name", "cat", "pid", "tid", "ts", "id"), ()),
    "metadata": (("name", "pid", "tid"), METADATA_TEXTS),
    "unread": (("ph",), ()),
}
_OWN_TEXTS = (_STREAM, *METADATA_TEXTS, *HOST_TEXTS, *DEVICE_TEXTS, *DEVICE_DECIMALS)


def _layout() -> Layout:
    dictionaries = {key: number for number, key in enumerate(("ph", "cat", "name", "pid"))}
    dictionaries["tid"] = dictionaries["pid"]
    for argument in _OWN_TEXTS:
        dictionaries[argument.column] = len(set(dictionaries.values()))
    slots = [(key, kind, dictionaries[key] if kind == _TEXT else _NO_DICTIONARY) for key, kind in _EVENT]
    places = {(key, False): place for place, (key, _) in enumerate(_EVENT)}
    columns: list[list[tuple[int, int]]] = []
    tables = {}
    for number, (table, (members, arguments)) in enumerate(_TABLES.items()):
        found = [(places[member, False], -1) for member in members]
        for argument in arguments:
            is_text = argument in _OWN_TEXTS
            for key in argument.keys:
                if (key, True) not in places:
                    places[key, True] = len(slots)
                    dictionary = dictionaries[argument.column] if is_text else _NO_DICTIONARY
                    slots.append((key, _TEXT if is_text else _NUMBER, dictionary))
            first, *others = (places[key, True] for key in argument.keys)
            found.append((first, others[0] if others else -1))
        columns.append(found)
        names = (*members, *(argument.column for argument in arguments), "index")
        tables[table] = TableLayout(number, {name: place for place, name in enumerate(names)})
    categories = [category.encode() for category in DEVICE_KINDS]
    return Layout(slots, columns, categories, tables, dictionaries)


LAYOUT = _layout()
"""The layout of every trace."""
