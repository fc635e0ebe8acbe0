"""Rows on PyTorch devices."""
