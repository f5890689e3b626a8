"""What several tables about data loading share."""
