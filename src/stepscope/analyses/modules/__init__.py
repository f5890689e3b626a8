"""Tables about nn.Module instances."""
