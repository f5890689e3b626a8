"""What limits a run, as a report: rules run, sections assembled."""
