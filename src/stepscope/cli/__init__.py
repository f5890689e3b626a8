"""The command line: each module here without an underscore is one command and assigns COMMAND; main.py runs them."""
