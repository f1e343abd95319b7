"""`timeleap mcp`: the conversations of a store as tools, resources and prompts of the Model Context Protocol.

A thin process between the `mcp` SDK, which the extra `timeleap[mcp]` brings, and the public client library.
"""
