"""The session store for the OpenAI Agents SDK, which is `timeleap_agents.adapters.openai_agents`."""

from timeleap_agents.adapters.openai_agents import StaleRunError, TimeleapSession

__all__ = ["StaleRunError", "TimeleapSession"]
