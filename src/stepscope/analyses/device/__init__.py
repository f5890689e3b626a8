"""Tables about the device: kernels, copies, idle time."""
