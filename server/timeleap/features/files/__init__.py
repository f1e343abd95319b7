"""Snapshots of the workspace's files, and their restore."""
