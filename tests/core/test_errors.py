"""Errors cross from one process to another."""

import pickle

from stepscope.core.errors import BadInput, MissingData, SameRank


def test_errors_of_other_processes_are_whole() -> None:
    bad = pickle.loads(pickle.dumps(BadInput("a.json", "no trace", where="byte 7", next_step="record one")))
    assert (bad.path, bad.why, bad.where, bad.next_step) == ("a.json", "no trace", "byte 7", "record one")
    assert str(bad) == "a.json, byte 7: no trace\nrecord one"
    assert isinstance(pickle.loads(pickle.dumps(SameRank("a.json", "of rank 1"))), SameRank)
    missing = pickle.loads(pickle.dumps(MissingData("steps", how="train")))
    assert (missing.what, missing.how, str(missing)) == ("steps", "train", "no steps in this run: train")
