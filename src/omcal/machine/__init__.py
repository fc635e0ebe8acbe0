"""This computer: threads, free memory, compiled loops, files written whole, lazy PyTorch."""
