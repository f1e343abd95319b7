"""The session store for pydantic-ai, which is `timeleap_agents.adapters.pydantic_ai`."""

from timeleap_agents.adapters.pydantic_ai import TimeleapConversationStore

__all__ = ["TimeleapConversationStore"]
