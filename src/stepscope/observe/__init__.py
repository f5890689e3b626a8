"""What is seen of the job from outside its processes: the system's counters."""
