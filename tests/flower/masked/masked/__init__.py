"""Masked sums."""
