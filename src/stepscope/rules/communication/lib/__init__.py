"""What rules about communication share."""
