"""What several tables about nn.Module instances share."""
