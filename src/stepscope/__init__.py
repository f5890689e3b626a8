"""stepscope tells why the training of a neural network is slow: measured, not guessed.

This package is imported inside the user's training process as well, so that it imports nothing by itself.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
