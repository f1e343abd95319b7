"""Approvals of sessions that many machines share."""
