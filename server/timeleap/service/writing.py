"""context/appendMessage, updateTokenCount, setSystemPrompt, checkpoint: what makes the log longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeleap.service.messages import check_message, check_messages
from timeleap.service.mutation import guard

if TYPE_CHECKING:
    from timeleap.service.call import Call
    from timeleap.service.service import Service
    from timeleap.service.views import Json
    from timeleap_protocol.context import (
        AppendMessageParams,
        CheckpointParams,
        SetSystemPromptParams,
        UpdateTokenCountParams,
    )


async def append_message(service: Service, params: AppendMessageParams, call: Call) -> Json:
    """Append one message, or several as one step."""
    session = service.session(call, params)
    messages = params.messages
    if messages is not None:
        check_messages(messages, ["messages"])
    elif params.message is not None:
        check_message(params.message, ["message"])
        messages = [params.message]
    return await session.append(messages or [], guard=guard(params, call))


async def update_token_count(service: Service, params: UpdateTokenCountParams, call: Call) -> Json:
    """Note how many tokens the model says the context has."""
    session = service.session(call, params)
    return await session.update_token_count(params.token_count, guard=guard(params, call))


async def set_system_prompt(service: Service, params: SetSystemPromptParams, call: Call) -> Json:
    """Put a system prompt in force."""
    session = service.session(call, params)
    return await session.set_system_prompt(params.system_prompt, guard=guard(params, call))


async def checkpoint(service: Service, params: CheckpointParams, call: Call) -> Json:
    """Write a checkpoint, with the message that tells the model of it where asked."""
    session = service.session(call, params)
    return await session.checkpoint(params.label, bool(params.add_user_message), guard=guard(params, call))
