"""What a run cost, and what its first finding could save of that, at a price per hour of the whole job."""

from dataclasses import replace

from stepscope.core.errors import MissingData
from stepscope.core.report import Text, Value
from stepscope.core.run import Run
from stepscope.render.document import Report
from stepscope.report.diagnose import diagnose
from stepscope.report.whole_run import whole_run

__all__ = ["price_text", "with_price"]

_HOUR = 3_600_000_000_000  # ns


def with_price(report: Report, run: Run, per_hour: float) -> Report:
    """The report with what the run costs in its summary."""
    first, *others = report.parts
    return replace(report, parts=(replace(first, blocks=(*first.blocks, price_text(run, per_hour))), *others))


def price_text(run: Run, per_hour: float) -> Text:
    """What the whole run cost, where that is known, and what the first finding could save in an hour of training."""
    price = Value(per_hour, "money")
    numbered = ((number, block.finding.gain) for number, block in enumerate(diagnose(run).findings, 1))
    number, gain = next(((number, gain) for number, gain in numbered if gain and gain.step_ns), (0, None))
    try:
        cost = Value(per_hour * int(whole_run(run)["duration"].sum()) / _HOUR, "money")
    except MissingData:
        told, values = "The job costs {} per hour.", [price]
    else:
        told, values = "This run cost {} at {} per hour.", [cost, price]
    if gain is None:
        return Text(told, tuple(values))
    low, high = (Value(per_hour * part / gain.step_ns, "money") for part in (gain.low_ns, gain.high_ns))
    values += [Value(number, "count"), low, high]
    saved = " Finding {} could save {} to {} per hour."
    if gain.curve or gain.low_ns == gain.high_ns:
        saved, values = " Finding {} could save up to {} per hour.", [*values[:-2], high]
    return Text(f"{told}{saved}", tuple(values))
