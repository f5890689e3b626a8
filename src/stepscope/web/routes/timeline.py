"""The timeline: tracks, frames of a window, search, spans, sums. Times are ns from the first moment of the run."""

from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepscope.core.run import Run
from stepscope.core.schema import Clock
from stepscope.timeline import Ref, event, find, frame, origin, place, step_window, sums, tracks
from stepscope.timeline.answers import event_answer, found_answer, frame_answer, sums_answer, tracks_answer
from stepscope.timeline.navigation import moved
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer
from stepscope.web.prepared import prepared

__all__ = ["ROUTES"]

_LONGEST_TEXT = 300  # letters of a search
Words = Mapping[str, str]


def make(opened: Opened) -> list[BaseRoute]:
    def answering(answer: Callable[[Run, Words], Any]) -> Callable[[Request], Response]:
        def respond(request: Request) -> Response:
            run = prepared(opened.run())
            try:
                return json_answer(request, answer(run, request.query_params))
            except KeyError as missing:
                told, status = f"there is no such thing in the timeline: {missing.args[0]}", 404
            except (ValueError, OverflowError) as wrong:
                told, status = str(wrong), 400
            return json_answer(request, {"error": told}, status=status)

        return respond

    answers = {
        "tracks": _tracks,
        "frame": _frame,
        "find": _find,
        "event": _event,
        "sums": _sums,
        "step": _step,
        "moment": _moment,
    }
    return [Route(f"/api/timeline/{name}", answering(answer)) for name, answer in answers.items()]


def _tracks(run: Run, _: Words) -> dict[str, Any]:
    return tracks_answer(run)


def _frame(run: Run, words: Words) -> dict[str, Any]:
    return frame_answer(frame(run, _window(run, words), int(words["width"]), _chosen(run, words)), origin(run))


def _sums(run: Run, words: Words) -> dict[str, Any]:
    return sums_answer(sums(run, _window(run, words), _chosen(run, words)))


def _find(run: Run, words: Words) -> dict[str, Any]:
    text = words["text"][:_LONGEST_TEXT]
    at = int(words["at"]) + origin(run) if "at" in words else None
    after = _ref(run, words) if "track" in words else None
    return found_answer(find(run, text, after, backwards="backwards" in words, at=at), origin(run))


def _event(run: Run, words: Words) -> dict[str, Any]:
    return event_answer(event(run, moved(run, _ref(run, words), words.get("way", ""))), origin(run))


def _step(run: Run, words: Words) -> dict[str, int] | None:
    """The window of the steps `first` to `last` of a rank, or of a typical one; nothing where it is not drawn."""
    numbers = (int(words["first"]), int(words["last"])) if "first" in words else None
    window = step_window(run, numbers, int(words["rank"]) if "rank" in words else None)
    return window and {"start": window[0], "end": window[1]}


def _moment(run: Run, words: Words) -> dict[str, int] | None:
    """The window of times that count from the moment `began` of a clock; without `to` what is around a moment."""
    began, clock = int(words["began"]), words["clock"]
    if clock not in get_args(Clock):
        raise ValueError(f"there is no clock {clock}")
    end = began + int(words["to"]) if "to" in words else None
    rank = int(words["rank"]) if "rank" in words else None
    window = place(run, cast("Clock", clock), began + int(words["from"]), end, rank)
    return window and {"start": window[0], "end": window[1]}


def _window(run: Run, words: Words) -> tuple[int, int]:
    return int(words["from"]) + origin(run), int(words["to"]) + origin(run)


def _ref(run: Run, words: Words) -> Ref:
    return Ref(words["track"], int(words["lane"]), int(words["start"]) + origin(run))


def _chosen(run: Run, words: Words) -> list[str] | None:
    """The tracks asked for by their places in the list of tracks: names of hundreds are too long for an address."""
    if "tracks" not in words:
        return None
    known = tracks(run)
    places = [int(place) for place in words["tracks"].split(",") if place]
    return [known[place].id for place in places if 0 <= place < len(known)]


ROUTES = Routes(make=make)
