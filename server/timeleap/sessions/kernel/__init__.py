"""Decisions: what a request makes of a session, as a value. No module here does I/O, waits, or asks a clock."""
