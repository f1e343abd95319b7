"""context/appendMessage: messages, opaque records, checkpoints and token counts are checked and appended.

They are checked here: a data model would make that slow. A message, or record, is the caller's own JSON object; nothing
is added, dropped or reordered. Only its shape is checked; how deep it is, where its frame is read (`timeleap.rpc.codec`).
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from timeleap.errors import InvalidInputError
from timeleap.service.service import guard
from timeleap.sessions.appends import submit
from timeleap.sessions.kernel.append_records import MAX_MESSAGE_BYTES, decide_checkpoint, decide_usage
from timeleap.sessions.kernel.change import Change
from timeleap.storage.record import plain_record, with_tl
from timeleap_protocol.limits import MAX_SAFE_INTEGER

if TYPE_CHECKING:
    from timeleap.call import Call
    from timeleap.json_value import Json
    from timeleap.service.connections import OpenHandle
    from timeleap.service.service import Service
    from timeleap.sessions.appends import Answer
    from timeleap.sessions.kernel.change import Marks
    from timeleap.storage.log_values import LogState
    from timeleap_protocol.structs.context import AppendMessageParams, CheckpointParams, UpdateTokenCountParams

RESERVED_KEY = "_tl"
_OPAQUE_ROLE: Final = re.compile(r"_[a-z0-9-]{1,32}")
_OUR_ROLES: Final = frozenset({"_checkpoint", "_usage"})


async def append_message(service: Service, params: AppendMessageParams, call: Call) -> Json:
    """Append one message, or several as one step."""
    session = service.session(call, params)
    messages = params.messages
    if messages is not None:
        for number, message in enumerate(messages):
            where: list[str | int] = ["messages", number]
            if len(message) == 1 and (name := next(iter(message))) in _LONE_MEMBERS:
                _LONE_MEMBERS[name](message[name], [*where, name])
            else:
                check_message(message, where)
    elif params.message is not None:
        check_message(params.message, ["message"])
        messages = [params.message]
    return await session.append(messages or [], guard=guard(params, call))


def begin_append(held: OpenHandle, params: AppendMessageParams, call: Call, then: Answer) -> bool:
    """Append a message in the fewest steps and tell `then` the answer. False if that cannot be done."""
    transactions, message = held.session.transactions, params.message
    if message is None or held.access == "readOnly":
        return False
    if transactions.state.facts.auto_checkpoint != "off":
        return False
    record = plain_record(message)
    if record is None or len(record.body) > MAX_MESSAGE_BYTES:
        return False

    def decide(_: LogState, marks: Marks) -> Change:
        return Change(records=(with_tl(record, marks) if marks else record,), message=message)

    return submit(transactions, decide, guard(params, call), then)


def begin_checkpoint(held: OpenHandle, params: CheckpointParams, call: Call, then: Answer) -> bool:
    """Write a checkpoint in the fewest steps, as `begin_append`."""
    if params.files or held.access == "readOnly":
        return False
    decide = partial(decide_checkpoint, params.label, bool(params.add_user_message))
    return submit(held.session.transactions, decide, guard(params, call), then)


def begin_token_count(held: OpenHandle, params: UpdateTokenCountParams, call: Call, then: Answer) -> bool:
    """Note a token count in the fewest steps, as `begin_append`."""
    if held.access == "readOnly":
        return False
    return submit(held.session.transactions, partial(decide_usage, params.token_count), guard(params, call), then)


def check_message(message: Any, where: list[str | int]) -> None:
    """Check one message at the wire location `where`.

    Raises:
        InvalidInputError: With `errors` naming the place (`loc`) and what is wrong.
    """
    if not isinstance(message, dict):
        raise _refused(where, "a message is a JSON object", "dict_type")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        raise _refused([*where, "role"], "role is required: a non-empty string such as user or assistant", "role")
    if role.startswith("_"):
        raise _refused(
            [*where, "role"], "roles that start with _ are control records; use the methods for them", "role"
        )
    if isinstance(content, list):
        for number, part in enumerate(content):
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise _refused([*where, "content", number], "a part is an object with a string type", "content_part")
    elif content is not None and not isinstance(content, str):
        raise _refused([*where, "content"], "content is a string, null or a list of parts", "content")
    if RESERVED_KEY in message:
        _check_key(message, where)


def check_opaque(record: Any, where: list[str | int]) -> None:
    """Check an opaque record, which is kept and is no part of the history, as `check_message` does a message."""
    if not isinstance(record, dict):
        raise _refused(where, "a record is a JSON object", "dict_type")
    role = record.get("role")
    if not isinstance(role, str) or not _OPAQUE_ROLE.fullmatch(role) or role in _OUR_ROLES:
        text = "the role of a record is _ and a name of 1 to 32 of a-z, 0-9 and -, which is none of Timeleap's own"
        raise _refused([*where, "role"], text, "role")
    if not isinstance(record.get("content"), str):
        raise _refused([*where, "content"], "content is required: a string, empty if there is none", "content")
    _check_key(record, where)


def _check_checkpoint(given: Any, where: list[str | int]) -> None:
    if not isinstance(given, dict) or given.keys() - {"label"} or not isinstance(given.get("label"), str | None):
        raise _refused(where, "a checkpoint is an object with a label, a string, or with nothing", "checkpoint")


def _check_token_count(given: Any, where: list[str | int]) -> None:
    if type(given) is not int or not 0 <= given <= MAX_SAFE_INTEGER:
        raise _refused(where, "a token count is a whole number from 0", "token_count")


_LONE_MEMBERS: Final = {"record": check_opaque, "checkpoint": _check_checkpoint, "tokenCount": _check_token_count}


def _check_key(message: dict[str, Any], where: list[str | int]) -> None:
    if RESERVED_KEY in message:
        raise _refused([*where, RESERVED_KEY], f"the key {RESERVED_KEY} is reserved for the server", "reserved")


def _refused(where: list[str | int], message: str, kind: str) -> InvalidInputError:
    errors = [{"loc": where, "msg": message, "type": kind}]
    return InvalidInputError(f"{'.'.join(map(str, where))}: {message}", errors=errors)
