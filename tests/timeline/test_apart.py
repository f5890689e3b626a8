"""Ranks that were opened apart give the same timeline as in one process, and each is asked for by itself."""

from pathlib import Path
from typing import Any

from stepscope.storage import open_run
from stepscope.storage.workers import in_this_process
from stepscope.timeline import Ref, Sums, WindowFrame, event, excerpt, find, frame, origin, sums, tracks
from stepscope.timeline.answers import event_answer, found_answer, frame_answer, sums_answer, tracks_answer


def test_the_timeline_of_ranks_opened_apart_is_the_same(corpus: Path) -> None:
    job = corpus / "traces" / "local" / "gloo_ddp2"
    together, apart = open_run(job), open_run(job, workers=in_this_process())
    assert apart.ranks is not None
    assert tracks_answer(apart) == tracks_answer(together)
    assert {track.rank for track in tracks(apart)} == {0, 1}
    first = origin(together)
    window = first, max(track.last for track in tracks(together))
    assert spelled(frame(apart, window, 500), first) == spelled(frame(together, window, 500), first)
    assert by_name(sums(apart, window)) == by_name(sums(together, window))
    found = find(apart, "aten::addmm")
    assert found.total > 0
    assert found_answer(found, first) == found_answer(find(together, "aten::addmm"), first)
    hits = [found.hit, *(Ref(track.id, 0, track.first) for track in tracks(apart) if track.kind == "steps")]
    for hit in hits:
        assert hit is not None
        assert event_answer(event(apart, hit), first) == event_answer(event(together, hit), first)
    assert excerpt(apart)["spans"].keys() == excerpt(together)["spans"].keys()


def spelled(drawn: WindowFrame, first: int) -> dict[str, Any]:
    """A frame with names in the place of their numbers, which are given as names are met."""
    answer = frame_answer(drawn, first)
    for lane in (lane for track in answer["tracks"] for lane in track.get("lanes", ())):
        for key in ("name", "longest"):
            lane[key] = [answer["names"][number] for number in lane.get(key, ())]
    del answer["names"]
    return answer


def by_name(found: Sums) -> dict[str, Any]:
    """Sums, of which those that are equal come in any order."""
    answer = sums_answer(found)
    answer["rows"] = sorted(answer["rows"], key=lambda row: (-row["sum"], row["name"]))
    return answer
