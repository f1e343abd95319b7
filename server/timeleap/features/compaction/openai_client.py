"""The `server` summariser: an OpenAI-compatible endpoint, through the official library (the extra `timeleap[openai]`).

The key comes from the environment or from a file, is read when it is needed, and leaves only towards the endpoint: no
text of the library or of the endpoint is passed on, since either may quote the request.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from timeleap import message_text
from timeleap.features.compaction.prepare import SUMMARISER_SYSTEM_PROMPT
from timeleap.features.compaction.sizes import text_length
from timeleap.features.compaction.summarizers import (
    Answer,
    Hear,
    Name,
    Record,
    TooLongAnswerError,
    TooLongPromptError,
    failed,
)
from timeleap.service.config import KEY_VARIABLE
from timeleap_protocol.limits import DEFAULT_SUMMARIZER_TIMEOUT

if TYPE_CHECKING:
    from openai import AsyncOpenAI


BACK_OFF = (0.5, 2.0, 8.0)
"""Seconds before the second attempt, the third, the fourth (the last), unless the endpoint says how long."""

_PATIENCE = 30.0  # seconds that an endpoint may ask us to wait before an attempt
_NO_KEY = "none"
_HEARD_EVERY = 200  # characters between two reports of progress
_MAX_KEY_FILE = 64 * 1024
_TRY_AGAIN = frozenset({408, 409, 425, 429})
_THOUGHTS = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)  # of models that think aloud in their answer
_TOO_LONG = re.compile(
    r"context[ _]length|maximum context|context window|too (?:long|many tokens)|prompt is too", re.IGNORECASE
)
_STRANGE = "sent an answer that is not what the API says"
_BYTES_PER_CHARACTER = 12  # in JSON, at most
_ENVELOPE = 1 << 20  # bytes around an answer that does not stream
_BYTES_IN_PIECES = 1_000  # a character of a stream, at most: each piece has its own envelope
_ASIDE = 64 << 20  # bytes of thoughts and the like
_CALLED = "the model called a tool instead of writing a summary, though it was offered none"
_LIBRARIES = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")


class _TransientError(Exception):
    """An attempt failed in a way that another one may not; the text completes "the summarising endpoint"."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


def configured(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("baseUrl") and settings.get("model"))


def installed() -> bool:
    return importlib.util.find_spec("openai") is not None


class OpenAiClient:
    """Client of an endpoint, as `Config.summarizer` names it; `environ` is `os.environ` where None."""

    name: Name = "server"

    def __init__(self, settings: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._timeout = float(settings.get("timeout", DEFAULT_SUMMARIZER_TIMEOUT))
        size = settings.get("contextSize")
        self.window: int | None = int(size) if size is not None else None

    async def summarize(self, prompt: Record, hear: Hear) -> Answer:
        try:
            async with asyncio.timeout(self._timeout), self._client() as client:
                for wait in (*BACK_OFF, None):
                    try:
                        return await self._attempt(client, prompt, hear)
                    except _TransientError as error:
                        if wait is None:
                            raise failed(
                                f"the summarising endpoint {error}, {len(BACK_OFF) + 1} times", self.name
                            ) from None
                        await asyncio.sleep(wait if error.wait is None else error.wait)
        except TimeoutError:
            raise failed(f"the summarising endpoint gave no answer in {self._timeout:g} s", self.name) from None
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[AsyncOpenAI]:
        openai = await asyncio.to_thread(_load)
        key = await asyncio.to_thread(self._key)
        client = openai.AsyncOpenAI(
            base_url=self._settings["baseUrl"], api_key=key or _NO_KEY, max_retries=0, timeout=self._timeout
        )
        try:
            yield client
        finally:
            await client.close()

    def _key(self) -> str:
        """The key; empty where there is none."""
        named = self._settings.get("apiKeyFile")
        if named is None:
            return self._environ.get(KEY_VARIABLE, "").strip()
        try:
            with Path(named).expanduser().open("rb") as file:
                key = file.read(_MAX_KEY_FILE).decode("ascii").strip()
        except (OSError, RuntimeError) as error:  # the latter for the home of a user there is not
            why = error.strerror if isinstance(error, OSError) else error
            raise failed(f"the key file {named} cannot be read: {why}", self.name, retryable=False) from error
        except UnicodeDecodeError:
            key = ""
        if not re.fullmatch(r"[!-~]+", key):
            raise failed(f"the key file {named} does not hold one key", self.name, retryable=False) from None
        return key

    async def _attempt(self, client: AsyncOpenAI, prompt: Record, hear: Hear) -> Answer:
        import openai

        unwanted = ["OpenAI-Organization", "OpenAI-Project", *(["Authorization"] if client.api_key == _NO_KEY else [])]
        try:
            stream = await client.chat.completions.create(
                model=self._settings["model"],
                messages=[
                    {"role": "system", "content": SUMMARISER_SYSTEM_PROMPT},
                    {"role": "user", "content": "".join(message_text.texts(prompt))},
                ],
                stream=True,
                stream_options={"include_usage": True},
                # What the library reads from variables of its own is meant for another endpoint.
                extra_headers={name: cast("str", openai.Omit()) for name in unwanted},
            )
            async with stream:
                limit = text_length(prompt)
                # It may be a JSON document, and no stream of events.
                if str(stream.response.headers.get("content-type", "")).startswith("application/json"):
                    return await self._unstreamed(stream.response, limit)
                return await self._read(stream, limit, hear)
        except openai.APITimeoutError:
            raise TimeoutError from None
        except openai.APIStatusError as error:
            raise self._judged(error) from None
        except openai.APIConnectionError as error:
            raise _TransientError(f"cannot be reached, or broke off ({_innermost(error)})") from None
        except openai.APIError:
            raise _TransientError("reported an error in the middle of its answer") from None
        except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
            raise _TransientError(_STRANGE) from None

    async def _read(self, stream: Any, limit: int, hear: Hear) -> Answer:
        """Put an answer together from its pieces."""
        pieces: list[str] = []
        size = told = 0
        reason: str | None = None
        usage: Any = None
        end = _End(stream.response, limit * _BYTES_IN_PIECES + _ASIDE)
        async for chunk in stream:
            usage = getattr(chunk, "usage", None) or usage
            for choice in chunk.choices[:1]:
                if choice.delta is not None and (choice.delta.tool_calls or choice.delta.function_call):
                    raise failed(_CALLED, self.name)
                if choice.delta is not None and choice.delta.content:
                    pieces.append(choice.delta.content)
                    size += len(pieces[-1])
                reason = choice.finish_reason or reason
            if size > limit:
                raise TooLongAnswerError
            if size - told >= _HEARD_EVERY:
                told = size
                hear(size)
        return self._whole("".join(pieces), reason or ("stop" if end.seen else None), usage)

    async def _unstreamed(self, response: Any, limit: int) -> Answer:
        """The answer of an endpoint that does not stream, though it was asked to: one JSON document."""
        body = b""
        try:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > limit * _BYTES_PER_CHARACTER + _ENVELOPE:
                    raise TooLongAnswerError
        except TooLongAnswerError:
            raise
        except Exception as error:  # of whichever library the official one reads with
            raise _TransientError(f"cannot be reached, or broke off ({_innermost(error)})") from None
        document = json.loads(body, object_hook=lambda members: SimpleNamespace(**members))
        [choice, *_] = document.choices
        if getattr(choice.message, "tool_calls", None) or getattr(choice.message, "function_call", None):
            raise failed(_CALLED, self.name)
        said = choice.message.content or ""
        if len(said) > limit:
            raise TooLongAnswerError
        return self._whole(said, getattr(choice, "finish_reason", None) or "stop", getattr(document, "usage", None))

    def _whole(self, said: str, reason: str | None, usage: Any) -> Answer:
        if reason is None:
            raise _TransientError("broke off in the middle of its answer" if said else _STRANGE)
        if reason in ("tool_calls", "function_call"):
            raise failed(_CALLED, self.name)
        if reason in ("length", "content_filter"):
            why = "its length limit" if reason == "length" else "the endpoint's content filter"
            raise failed(f"the summary was cut short by {why}", self.name)
        try:  # a character may have come in two pieces, each with half of a pair
            said = said.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise failed("the summary has half a character in it", self.name) from None
        text = _THOUGHTS.sub("", said).strip()
        if not text:
            raise failed("the model's summary is empty", self.name)
        return Answer(text, _counted(usage) if text == said.strip() else None)

    def _judged(self, error: Any) -> Exception:
        """The error for an HTTP status, without any of the endpoint's own text."""
        status = int(error.status_code)
        if status == 413 or (status == 400 and _TOO_LONG.search(f"{error.code} {error.message}")):
            return TooLongPromptError()
        if status in _TRY_AGAIN or status >= 500:
            return _TransientError(f"answered with HTTP status {status}", _asked_to_wait(error.response.headers))
        if status in (401, 403):
            why = f"does not take the key (HTTP status {status}): set {KEY_VARIABLE} or summarizer.apiKeyFile"
        elif status == 404:
            why = "knows no such address or model (HTTP status 404): look at summarizer.baseUrl and summarizer.model"
        else:
            why = f"refused the request (HTTP status {status})"
        return failed(f"the summarising endpoint {why}", self.name, retryable=False)


class _End:
    """Watches a stream go by for the line that ends it: some endpoints give no other sign that they are done. And for
    its length: what is no part of the answer may be without end, too.

    The library does not tell whether it came. Where it reads in another way than now, none is seen.
    """

    _LINE = re.compile(rb"\ndata: ?\[DONE\]")
    _LENGTH = 13  # of that

    def __init__(self, response: Any, limit: int) -> None:
        self.seen = False
        self._room = limit
        self._tail = b"\n"
        self._read = response.aiter_bytes
        response.aiter_bytes = self._watched

    async def _watched(self, *args: Any, **named: Any) -> AsyncIterator[bytes]:
        async for piece in self._read(*args, **named):
            self._room -= len(piece)
            if self._room < 0:
                raise TooLongAnswerError
            piece_and_before = self._tail + piece
            self.seen = self.seen or self._LINE.search(piece_and_before) is not None
            self._tail = piece_and_before[-self._LENGTH :]
            yield piece


def _load() -> Any:
    """Import the library, which takes most of a second, and keep it and what it uses from logging requests."""
    import openai

    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return openai


def _innermost(error: BaseException) -> str:
    """The name of what an error comes from; its text may quote addresses and headers."""
    while error.__cause__ is not None:
        error = error.__cause__
    return type(error).__name__


def _asked_to_wait(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, min(float(headers.get("retry-after", "")), _PATIENCE))
    except ValueError:
        return None


def _counted(usage: Any) -> int | None:
    """The tokens of an answer without what the model thought."""
    total = getattr(usage, "completion_tokens", None)
    details = getattr(usage, "completion_tokens_details", None)
    thought = getattr(details, "reasoning_tokens", None) or 0
    return total - thought if isinstance(total, int) and isinstance(thought, int) and total > thought else None
