"""Sessions of agent SDKs that are kept by Timeleap: each adapter is what an SDK calls its session store.

`claude`: the Claude Agent SDK; `openai_agents`: the OpenAI Agents SDK; `pydantic_ai`: pydantic-ai. Each needs the SDK,
which the extra of the same name brings (`timeleap[claude]`, `timeleap[openai-agents]`, `timeleap[pydantic-ai]`), and a
client that is running. They use the public client library and nothing else of Timeleap.
"""
