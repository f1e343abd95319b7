"""Other agents beside Timeleap's own: mirrors of their sessions, hooks, adapters for their SDKs, a server for models (MCP)."""
