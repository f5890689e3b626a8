"""What several tables about training steps share."""
