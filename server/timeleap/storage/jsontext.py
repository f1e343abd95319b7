"""JSON as the log has it: written strictly and exactly, read as leniently as the original program reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from timeleap.errors import InvalidInputError, TooLargeError

decode_strictly = msgspec.json.Decoder().decode
encode_quickly = msgspec.json.Encoder().encode
"""Not exact: NaN and infinity become null. For values that are known to have none."""


def encode_json(value: object) -> bytes:
    """Compact UTF-8 JSON, integers of any size exact.

    Raises:
        InvalidInputError: The value has no exact JSON form (NaN, infinity, a lone surrogate, an unknown type).
        TooLargeError: It is nested too deeply.
    """
    try:
        body = encode_quickly(value)
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"text with a lone surrogate cannot be stored: {error}") from None
    except RecursionError:
        raise TooLargeError("the value is nested too deeply") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"not a JSON value: {error}") from None
    if b"null" in body and not _finite(value):  # msgspec writes NaN and infinity as null
        raise InvalidInputError("NaN and infinity are not JSON numbers")
    return body


def decode_json(line: bytes) -> Any:
    """The value of one line, read as leniently as the original does (raw control characters, NaN, any number).

    Raises:
        ValueError: It is not JSON or not UTF-8, is nested too deeply, or holds an integer of over 4 300 digits.
    """
    try:
        return decode_strictly(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        return json.loads(line.decode(), strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def strict_json(line: bytes) -> bytes:
    """A LENIENT line as strict JSON: the same value, NaN and infinity as null, lone surrogates escaped."""
    value = _nulled(decode_json(line))
    try:
        return encode_quickly(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(_finite(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return all(_finite(item) for item in value)
    return True


def _nulled(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _nulled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_nulled(item) for item in value]
    return value
