"""Tables about operators: FLOPs, rooflines, call stacks."""
