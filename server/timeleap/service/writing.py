"""context/appendMessage, updateTokenCount, setSystemPrompt, checkpoint: what makes the log longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timeleap.service import views
from timeleap.service.messages import check_message, check_messages
from timeleap.service.mutation import guard
from timeleap.service.registry import handles

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


@handles("context/appendMessage")
async def append_message(service: Service, params: AppendMessageParams, call: Call) -> Json:
    """Append one message, or several as one step."""
    session = service.writable(call, params.session_id)
    messages = params.messages
    if messages is not None:
        check_messages(messages, ["messages"])
    elif params.message is not None:
        check_message(params.message, ["message"])
        messages = [params.message]
    return await session.append(messages or [], guard=guard(params, call, service.views.append))


@handles("context/updateTokenCount")
async def update_token_count(service: Service, params: UpdateTokenCountParams, call: Call) -> Json:
    """Note how many tokens the model says the context has."""
    session = service.writable(call, params.session_id)
    return await session.update_token_count(params.token_count, guard=guard(params, call, views.usage))


@handles("context/setSystemPrompt")
async def set_system_prompt(service: Service, params: SetSystemPromptParams, call: Call) -> Json:
    """Put a system prompt in force."""
    session = service.writable(call, params.session_id)
    return await session.set_system_prompt(params.system_prompt, guard=guard(params, call, views.head))


@handles("context/checkpoint")
async def checkpoint(service: Service, params: CheckpointParams, call: Call) -> Json:
    """Write a checkpoint, with the message that tells the model of it where asked."""
    session = service.writable(call, params.session_id)
    return await session.checkpoint(
        params.label, bool(params.add_user_message), guard=guard(params, call, views.checkpointed)
    )
