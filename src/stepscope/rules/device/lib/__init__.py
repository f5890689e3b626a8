"""What rules about the device share."""
