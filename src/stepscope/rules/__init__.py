"""The checks: one problem each. The docstring of a rule is its page; its file is named after the problem."""
