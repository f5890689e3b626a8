"""What tuning found, as blocks: the sentence that says it all, every setting that was tried, the line to change."""

from collections.abc import Iterator, Sequence
from shlex import join

from stepscope.core.report import Block, Cell, Table, Text, Value
from stepscope.core.schema import Unit
from stepscope.experiments.change import CodeChange
from stepscope.experiments.loader import NOTHING_WAITS, Row, TuneAnswer
from stepscope.experiments.trial_result import AS_IT_IS
from stepscope.models.loader_model import NOISY
from stepscope.render.document import Page, Part
from stepscope.report.sections import literal, many

__all__ = ["page_of", "sentence_of"]

_COLUMNS: tuple[tuple[str, Unit | None], ...] = (
    ("setting", None), ("median step", "ns"), ("data wait", "ratio"), ("times as fast", None), ("at least", None),
    ("at most", None), ("trials", "count"), ("steps", "count"),
)  # fmt: skip


def page_of(result: TuneAnswer, change: CodeChange | None, command: Sequence[str], folder: str) -> Page:
    """The page that renderers draw; `change` is None where there is nothing to change."""
    blocks = [sentence_of(result), *_table(result), *_left_out(result), *_change(change), *_closing(result, folder)]
    part = Part(name="loader", title="Loader", blocks=tuple(blocks))
    return Page(name="stepscope tune loader", subject=join(command), parts=(part,))


def sentence_of(result: TuneAnswer) -> Text:
    """What to set, and by how much that is faster; or why there is nothing to set."""
    winner, own = result.winner, result.rows[0]
    if winner is not None:
        ratio = result.row(winner).ratio
        assert ratio is not None
        text = f"{winner.text()}: {{}}× as fast as the script as it is (95 % interval {{}}–{{}})."
        return Text(text, tuple(Value(number, None) for number in (ratio.estimate, ratio.low, ratio.high)))
    match result.why:
        case "nothing-waits":
            text = "No change: {} of each step waits for data, and less than {} is noise."
            return Text(text, (Value(own.wait or 0.0, "ratio"), Value(NOTHING_WAITS, "ratio")))
        case "refused":
            return Text("Nothing was tried: the loader that trains can have no other settings.")
        case "failed":
            return Text("The job trains as it is, and with no other setting that was tried.")
        case "budget":
            return Text("No clear winner: the time was over before the second trials. Give it more with --budget.")
        case _:
            return Text("No clear winner: no setting is faster than the script as it is by more than the noise.")


def _table(result: TuneAnswer) -> Iterator[Block]:
    rows = [row for row in result.rows if row.median is not None]
    if rows:
        ordered = sorted(rows, key=lambda row: (row.setting != AS_IT_IS, -(row.ratio.estimate if row.ratio else 0.0)))
        yield Table("", _COLUMNS, tuple(map(_cells, ordered)))
        yield Text(
            f"As it is: num_workers={result.loader.workers}. Times as fast as that, by mean speed of the same rounds; "
            "at least and at most: 95 % interval."
        )


def _cells(row: Row) -> tuple[Cell, ...]:
    ratio = row.ratio
    known = (ratio.estimate, ratio.low, ratio.high) if ratio else (None, None, None)
    return (row.setting.text(), row.median, row.wait, *known, row.trials, row.steps)


def _left_out(result: TuneAnswer) -> Iterator[Block]:
    for row in result.rows:
        if row.left_out is not None:
            yield Text(f"{row.setting.text()}: {literal(row.left_out, 400)}.")


def _change(change: CodeChange | None) -> Iterator[Block]:
    if change is None:
        return
    where = f"in {literal(change.place.file, 400)}:{change.place.line}" if change.place else "where the loader is made"
    gone = f", without {' and '.join(change.remove)}" if change.remove else ""
    yield Text(f"Change {where} to{gone}:")
    yield Text(f"    {literal(change.code, 2000)}")


def _closing(result: TuneAnswer, folder: str) -> Iterator[Block]:
    if result.others is not None and result.others > NOISY:
        text = "Other programs used up to {} of the cores during a trial: stop them and try again."
        yield Text(text, (Value(result.others, "ratio"),))
    text = f"{many(result.trials, 'trial')} in {{}}, recorded in {literal(folder, 400)}."
    yield Text(text, (Value(result.trials, "count"), Value(result.seconds * 1e9, "ns")))
