"""Rules about operators: FLOPs, rooflines, call stacks."""
