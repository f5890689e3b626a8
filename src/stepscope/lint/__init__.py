"""Static checks: lines of a training script that slow it down, told from its text alone."""
