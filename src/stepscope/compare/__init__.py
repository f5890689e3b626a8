"""Two runs side by side: which is faster, whether the noise alone could make the difference, and what explains it."""
