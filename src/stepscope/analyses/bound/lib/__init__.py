"""What several tables about what limits a run share."""
