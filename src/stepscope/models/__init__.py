"""What a change would do to a run: models that are pure functions of what was measured."""
