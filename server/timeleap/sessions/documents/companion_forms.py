"""Forms in which documents and records have the companions of a log, such as the files that a session works on.

A part outside the core registers its form when it is loaded. Of a part that is not there, members stay as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from timeleap.json_value import Json
from timeleap.sessions.documents.json_files import Check


class CompanionForm(Struct, frozen=True):
    """How one part is kept.

    Attributes:
        key: Its member of a checkpoint, of the facts of a timeline, of a step, and of `timeleap.json` (its settings).
        mark: Its member of `_tl` in a checkpoint's record.
        followed: Its member of `timeleap.json` with the token of the last change of it that the log has followed.
        checks: The types of its members of `timeleap.json`.
        read_mark: The mark of a record as a checkpoint tells it; None where it cannot be used.
        refuse_bad: Refuses settings of `session/open`, with InvalidInputError.
        of_fork: Members of `timeleap.json` of a fork: by the settings and the uid of the session.
    """

    key: str
    mark: str
    followed: str
    checks: Mapping[str, Check]
    read_mark: Callable[[Any], Json | None]
    refuse_bad: Callable[[Mapping[str, Any]], None]
    of_fork: Callable[[Json, str], Json]


FORMS: dict[str, CompanionForm] = {}
"""The forms of the parts of this process, by key."""


def marks_of(kept: Mapping[str, Any]) -> Json:
    """The marks by which the record of a checkpoint has what companions keep of the state at it, by key."""
    return {form.mark: kept[key] for key, form in FORMS.items() if key in kept}


def with_checks(model: Mapping[str, Check]) -> Mapping[str, Check]:
    """The types of the members of `timeleap.json`, those of parts included."""
    return {**model, **{name: check for form in FORMS.values() for name, check in form.checks.items()}}


def refuse_bad(key: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that cannot be such, with InvalidInputError. Those of a part that is not there stay unused."""
    if key in FORMS:
        FORMS[key].refuse_bad(settings)
