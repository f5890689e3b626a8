"""Exact time: decimal text of microseconds to whole nanoseconds, without a float on the way."""

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation

__all__ = ["FARTHEST", "nanoseconds", "whole_number"]

FARTHEST = 4_000_000_000_000_000_000
"""Times are cut at plus and minus this many ns (year 2096), so that base + time + duration stays within int64."""

_EXACT = Context(prec=400, rounding=ROUND_HALF_EVEN, Emax=10**6, Emin=-(10**6))
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?\s*", re.ASCII)
_LONGEST = 350  # characters; a number with more digits is damage, and exact arithmetic on it would be slow


def nanoseconds(microseconds: object) -> int | None:
    """`microseconds` (an int, or decimal text such as "4317199942292.685" or "2.05e1") as ns, rounded half to even.

    None if it is no finite number. Beyond FARTHEST the result is plus or minus FARTHEST.
    """
    if type(microseconds) is int:
        exact = microseconds * 1000
    elif type(microseconds) is str:
        whole, point, fraction = microseconds.partition(".")
        if point and len(fraction) == 3 and whole.isdecimal() and fraction.isdecimal() and whole.isascii():
            exact = int(whole + fraction)  # the form that nearly all current traces have
        else:
            slow = _rounded(microseconds)
            if slow is None:
                return None
            exact = slow
    else:
        return None
    return exact if -FARTHEST < exact < FARTHEST else (FARTHEST if exact > 0 else -FARTHEST)


def _rounded(text: str) -> int | None:
    number = _decimal(text)
    if number is None:
        return None
    if number.adjusted() > 30:  # far beyond every clock: do not write out a million digits
        return FARTHEST if number > 0 else -FARTHEST
    return int(number.scaleb(3, _EXACT).to_integral_value(ROUND_HALF_EVEN, _EXACT))


def whole_number(value: object) -> int | None:
    """`value` as an int64 if it is one: an int, or text of a whole number ("102", "3.0", "1e3"); else None."""
    if type(value) is int:
        exact = value
    elif type(value) is str:
        number = _decimal(value)
        if number is None or number.adjusted() > 30 or number != number.to_integral_value():
            return None
        exact = int(number)
    else:
        return None
    return exact if -(2**63) <= exact < 2**63 else None


def _decimal(text: str) -> Decimal | None:
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text, _EXACT)
    except InvalidOperation:
        return None
