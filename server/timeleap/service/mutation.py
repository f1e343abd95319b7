"""From a mutating request to the guard its change is made under."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from timeleap.attach.handover import note_of
from timeleap.sessions.outcomes import Cause, Mutation
from timeleap.storage.record import MADE_HERE
from timeleap_protocol.methods import REQUESTS

if TYPE_CHECKING:
    from timeleap.call import Call

IGNORED = frozenset({"expected_head", "request_id", "meta", "work_done_token", "partial_result_token", "timeout"})
"""Params that do not change the effect of a request."""

DMAIL_HERE = f"{MADE_HERE}dmail."
"""Prefix of the request id under which a D-Mail arrives in another session."""


def guard(params: Any, call: Call) -> Mutation:
    """The guard of the request `params`.

    A request for an approval, which is no change of the log, expects no head.
    """
    request_id = params.request_id
    return Mutation(
        expected_head=getattr(params, "expected_head", None),
        request_id=request_id,
        method=call.method,
        fingerprint=fingerprint(call.method, params) if request_id else "",
        cause=Cause(request_id=_known_to_client(request_id), client=call.client.name),
        again=call.again or (call.client.is_peer and note_of(call.params).again),
    )


def _known_to_client(request_id: str | None) -> str | None:
    return None if request_id is not None and request_id.startswith(MADE_HERE) else request_id


def cause(call: Call) -> Cause:
    """The cause of a change that carries no request id."""
    return Cause(client=call.client.name)


def fingerprint(method: str, params: Any) -> str:
    """16 hexadecimal digits that tell one request from another with the same id.

    Order of keys does not count, nor does what does not change the effect (expected head, tokens, `_meta`), nor what
    the session is called here: another process may know the same directory under another id.
    """
    ignored = IGNORED if REQUESTS[method].session_id_counts else IGNORED | {"session_id"}
    fields = params.model_dump(mode="json", by_alias=True, exclude=ignored, exclude_none=True)
    text = json.dumps([method, fields], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
