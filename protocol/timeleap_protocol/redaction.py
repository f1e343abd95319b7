"""Params and result of `session/redact`: taking a secret out of everything a session keeps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from timeleap_protocol.base import Choice, Count, MutationParams, Opt, Shape, Timestamp
from timeleap_protocol.limits import MAX_QUERY, MAX_REDACTED_CHARACTERS, MAX_REPLACEMENT
from timeleap_protocol.shapes import ContextSummary, Head


class SessionRedactParams(Choice, MutationParams):
    """`session/redact`. What is taken out is gone for good: no timeline keeps it, and nothing brings it back."""

    alternatives = (("value",), ("pattern",), ("secrets",))

    value: Opt[Annotated[str, Field(min_length=1, max_length=MAX_REDACTED_CHARACTERS)]] = None
    """Take out this text, however JSON spells it, JSON within strings included."""
    pattern: Opt[Annotated[str, Field(min_length=1, max_length=MAX_QUERY)]] = None
    """Take out what this regular expression, in RE2's syntax, matches."""
    secrets: Opt[bool] = None
    """If true: take out what looks like a key, a token or a password, wherever it stands. Needs the extra `timeleap[redact]`."""
    replacement: Opt[Annotated[str, Field(max_length=MAX_REPLACEMENT)]] = None
    """What stands in its place. Default: `[redacted]`; where that would hold it, `***` or nothing."""
    dry_run: Opt[bool] = None
    """Say where it stands, and change nothing. Default: false."""
    deleted_at: Opt[Timestamp] = None
    """Of the session of that id in the trash that was deleted then, as `session/listTrash` says it; else of the live one."""
    store: Opt[bool] = None
    """Also look (only look) into all other sessions of the store: `alsoIn`. Default: false."""


class RedactedPlace(Shape):
    """A record that holds what is to be taken out."""

    line: Count
    """Of the file, from 0."""
    index: Opt[Count] = None
    """Of the message, where the record is one of history."""
    occurrences: Count


class RedactedFile(Shape):
    """A file that held what was looked for."""

    file: str
    """Relative to the session's directory."""
    trash: Opt[str] = None
    """The directory in the store's trash, where the file is one of an earlier session of this id."""
    kind: Literal["log", "timeline", "quarantine", "other"]
    records: Count
    """Lines it stood in; of a file that is one JSON document: 1."""
    occurrences: Count
    places: Opt[list[RedactedPlace]] = None
    """In a dry run: the first 100."""
    linked: Opt[bool] = None
    """Present where the file has another name besides, out of the session's reach: what has that name keeps the old bytes."""


class SecretRule(Shape):
    """A rule by which secrets were found."""

    rule: str
    values: Count
    """Different ones."""


class RedactedSnapshot(Shape):
    """A snapshot of files that held what was looked for."""

    snapshot: str
    root: str
    """The folder whose files it has."""


class SessionRedactResult(Head):
    """What was taken out, or (dry run) would be; never what it was."""

    redacted: bool
    """Whether anything was taken out, or would be."""
    records: Count
    """Of all files together."""
    occurrences: Count
    kept: Count
    """Places where it stands and stays, since they give a record its form: roles, names of members, numbers of ours."""
    split: Count
    """Of the occurrences, those that were split over text parts of a message, none of which held it whole."""
    files: list[RedactedFile]
    """At most 1000, the live log first."""
    rules: Opt[list[SecretRule]] = None
    """With `secrets`: what kinds of them there are."""
    snapshots: Opt[list[RedactedSnapshot]] = None
    """Snapshots of the session's files that held it, in a file, a path or the label, and are gone, or (dry run) would be; with
    `store` those of other sessions, too. Files on disk are left as they are. At most 1000."""
    snapshots_unread: Opt[str] = None
    """Why the snapshots could not be looked through: they may hold it."""
    also_in: Opt[list[str]] = None
    """With `store`: the ids of other sessions that hold it, those in the trash included."""
    untouched: Opt[list[str]] = None
    """Files of the other program that still hold it, where the session is a mirror. They are never changed here; as
    long as they hold it, a rewriting of them by their program brings it back."""
    context: ContextSummary
