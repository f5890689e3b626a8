"""Tables about training steps."""
