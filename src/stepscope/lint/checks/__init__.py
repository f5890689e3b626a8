"""Static checks, one a file."""
