"""What several tables about collectives and ranks share."""
