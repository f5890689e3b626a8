"""What several tables about the device: kernels, copies, idle time share."""
