"""Trials: run the job again with other settings, measure, keep or drop."""
