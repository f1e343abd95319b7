"""Histories as the providers of models take them.

The formats are those of OpenAI's Chat Completions (`POST /v1/chat/completions`) and of Anthropic's Messages API
(`POST /v1/messages`, version 2023-06-01), as their references and their official Python libraries' types describe them;
the limits that only their error messages tell are constants beside the code that keeps them.
"""
