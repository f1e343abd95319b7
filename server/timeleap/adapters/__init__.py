"""Adapters for agent SDKs (`timeleap_agents.adapters`), under the names that programs import them by."""
