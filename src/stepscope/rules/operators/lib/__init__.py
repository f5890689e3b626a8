"""What rules about operators share."""
