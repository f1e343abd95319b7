"""What the server makes of params: structs with the fields of their models, checked by msgspec.

Every request has params, and nearly all are right. So what judges them first is made from the models by
`python -m timeleap_protocol.generate` (the modules of `structs`), loads in a millisecond and knows no words: pydantic,
which takes a hundred times as long to load, is asked only about what a struct refuses. It says what is wrong, or takes
what is rare: 3.0 for 3, and what LSP wants lenient.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Self

from msgspec import Meta, Struct, convert, field, structs

from timeleap_protocol.limits import MAX_PAGE, MAX_REQUEST_ID, MAX_SAFE_INTEGER

JsonObject = dict[str, Any]
Int = Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
Count = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
Name = Annotated[str, Meta(min_length=1)]
PathText = Annotated[str, Meta(pattern=r"\A[^\0]+\Z")]
RequestId = Annotated[str, Meta(min_length=1, max_length=MAX_REQUEST_ID)]


def nested(scalar: Any, levels: int) -> Any:
    """The type of a JSON value: a scalar, or objects and lists that are nested so deeply at most."""
    found: Any = scalar
    for _ in range(levels):
        found = scalar | dict[str, found] | list[found]
    return found


class LenientStruct(Struct, kw_only=True, rename="camel"):
    """Base of what may have members that we do not know. A field that is absent, or null, is None."""

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Check a decoded JSON value.

        Raises:
            msgspec.ValidationError: It does not fit, or only the model says that it does.
        """
        return convert(value, cls)

    def to_wire(self) -> JsonObject:
        """The JSON value: wire names, absent fields left out."""
        return {
            wire: value.to_wire() if isinstance(value, LenientStruct) else value
            for name, wire, optional in _fields(type(self))
            if (value := getattr(self, name)) is not None or not optional
        }

    def not_null(self, ignored: frozenset[str]) -> JsonObject:
        """The same without the fields that are None, and those that are `ignored`, by their names in Python."""
        return {
            wire: value.to_wire() if isinstance(value, LenientStruct) else value
            for name, wire, _ in _without(type(self), ignored)
            if (value := getattr(self, name)) is not None
        }

    def given(self, ignored: frozenset[str] = frozenset()) -> JsonObject:
        """By its name in Python: every field that is required, or was given, but for those that are `ignored`."""
        return {
            name: value
            for name, _, optional in _without(type(self), ignored)
            if (value := getattr(self, name)) is not None or not optional
        }

    def replace(self, **values: Any) -> Self:
        """The same with other values."""
        return structs.replace(self, **values)

    @classmethod
    def without_nulls(cls, value: JsonObject) -> JsonObject:
        """`value` without the members that are absent but for a null."""
        if None not in value.values():
            return value
        absent = {wire for _, wire, optional in _fields(cls) if optional}
        return {name: member for name, member in value.items() if member is not None or name not in absent}

    @classmethod
    def optional_fields(cls) -> set[str]:
        """The names of the fields that may be absent."""
        return {name for name, _, optional in _fields(cls) if optional}


@cache
def _fields(struct: type[LenientStruct]) -> tuple[tuple[str, str, bool], ...]:
    """Of each field its name in Python, its name on the wire, and whether it may be absent."""
    names, defaults = struct.__struct_fields__, struct.__struct_defaults__  # of the last names, as in a signature
    required = len(names) - len(defaults)
    optional = [number >= required and defaults[number - required] is None for number in range(len(names))]
    return tuple(zip(names, struct.__struct_encode_fields__, optional, strict=True))


@cache
def _without(struct: type[LenientStruct], ignored: frozenset[str]) -> tuple[tuple[str, str, bool], ...]:
    """The same without the fields of some names in Python."""
    return tuple(field for field in _fields(struct) if field[0] not in ignored)


class StrictStruct(LenientStruct, kw_only=True, forbid_unknown_fields=True):
    """Base of what may have no others."""


class ParamsStruct(StrictStruct, kw_only=True):
    """Base of the params of every method (`timeleap_protocol.base.Params`)."""

    meta: JsonObject | None = field(default=None, name="_meta")
    work_done_token: str | Int | None = None
    partial_result_token: str | Int | None = None


EXCLUDED = "fields exclude each other"  # the model has the words


def choose_one(*fields: object) -> None:
    """`choose` for groups of one field each, of which one is required."""
    if fields.count(None) != len(fields) - 1:
        raise ValueError(EXCLUDED)


def choose(*groups: tuple[object, ...], required: bool) -> None:
    """Raise `ValueError` where fields of more than one group are given, or of none though one is `required`."""
    given = 0
    for group in groups:
        given += group.count(None) < len(group)
    if given > 1 or (required and not given):
        raise ValueError(EXCLUDED)
