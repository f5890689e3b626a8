"""Tables about data loading."""
