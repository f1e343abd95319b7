"""Hooks of agents: settings files that name them, the command that they run, and the process that it talks to."""
