"""Rules about data loading."""
