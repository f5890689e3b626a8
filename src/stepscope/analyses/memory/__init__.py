"""Tables about device memory."""
