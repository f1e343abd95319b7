"""The session store for the Claude Agent SDK, which is `timeleap_agents.adapters.claude`."""

from timeleap_agents.adapters.claude import ClaudeSessionStore, Continuation, RevertedError, StaleAgentError

__all__ = ["ClaudeSessionStore", "Continuation", "RevertedError", "StaleAgentError"]
