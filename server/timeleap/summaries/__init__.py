"""Summaries of the work between two checkpoints: pure, but for `log_spans`, which reads logs."""
