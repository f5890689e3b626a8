"""The traced window: torch's profiler for a few steps of the job."""
