"""What several tables about device memory share."""
