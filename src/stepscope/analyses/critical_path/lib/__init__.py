"""What several tables about the critical path of a step share."""
