"""Rules about training steps."""
