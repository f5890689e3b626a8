"""What several tables about operators: FLOPs, rooflines, call stacks share."""
