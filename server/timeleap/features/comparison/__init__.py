"""Comparison of two states of a context, or of two sessions."""
