"""What several tables about the host: Python, operators' launches and waits share."""
