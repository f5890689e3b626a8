"""Renderers draw a report as text for a terminal, JSON, Markdown or one HTML file. They know nothing of runs."""
