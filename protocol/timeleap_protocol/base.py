"""What all models of the protocol have in common: the model base, the scalars, the bases of params.

Names are snake_case in Python and camelCase on the wire. A field that may be absent is `Opt[T] = None`, and is left out of
the output when unset. A field that is always present and may be null is `T | None` without a default. The two are never
mixed: published schemas declare no optional field nullable. But what a client sends (`NullIsAbsent`) may have null for a
field that is absent, as many languages write it.

Validators are built at first use (`defer_build`): a process pays for the methods it is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    RootModel,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from timeleap_protocol.limits import MAX_PAGE, MAX_REQUEST_ID, MAX_SAFE_INTEGER, SESSION_ID_PATTERN

T = TypeVar("T")

JsonObject = dict[str, Any]


class _AbsentWhenUnset:
    """Makes `T | None` validate as `T`: the None of an unset field is for Python only."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner = tuple(arg for arg in get_args(source) if arg is not type(None))
        return handler.generate_schema(Union[inner])  # noqa: UP007 (a tuple of any length)


def _is_unset(value: object) -> bool:
    return value is None


_ABSENT_WHEN_UNSET = _AbsentWhenUnset()

Opt = Annotated[T | None, Field(exclude_if=_is_unset), _ABSENT_WHEN_UNSET]
"""A field that is absent when unset, never null."""


class _PublishedWithoutNull:
    """Takes null; the published schema does not say so, since a generated client that sends nulls for all it leaves unset
    sends more than it has to."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        published = handler(schema)
        branches = [branch for branch in published.pop("anyOf", ()) if branch != {"type": "null"}]
        return published | (branches[0] if len(branches) == 1 else {"anyOf": branches} if branches else {})


Nullable = Annotated[T | None, Field(exclude_if=_is_unset), _PublishedWithoutNull()]
"""A field of LSP's kind: null and absent mean the same."""


def whole(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is the integer 3. Everything else is left for the strict check to judge."""
    return int(value) if type(value) is float and value.is_integer() else value


Int = Annotated[int, Field(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER), BeforeValidator(whole)]
Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER), BeforeValidator(whole)]
Positive = Annotated[int, Field(ge=1, le=MAX_SAFE_INTEGER), BeforeValidator(whole)]
Limit = Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(whole)]
"""How many entries a page may have."""


class _OneError:
    """Makes a union that fits no branch one error of the field, instead of one a branch under Python's names of them."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "union"
        return {**schema, "custom_error_type": "union_type", "custom_error_message": self._message}


Token = Annotated[str | Int, _OneError("Input should be a string or an integer")]
"""An id that the sender chose."""
Name = Annotated[str, Field(min_length=1)]
Place = Annotated[str | Count, _OneError("Input should be a uid or an index")]
"""A place in a log: uid of a checkpoint, or index of a message."""


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise PydanticCustomError("path", "A path has no NUL character")
    return value


PathText = Annotated[str, Field(min_length=1), AfterValidator(_without_nul)]
"""A path as the operating system takes it."""
RequestId = Annotated[str, Field(min_length=1, max_length=MAX_REQUEST_ID)]
SessionId = Annotated[str, Field(json_schema_extra={"pattern": SESSION_ID_PATTERN})]
"""The form is published, but judged by the server: a bad id is `invalidSessionId`, not `invalidParams`."""
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""ISO-8601, UTC."""


class WireModel(BaseModel):
    """Base of every model. Strict: a string is never taken for a number, nor a number for a boolean."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        defer_build=True,
        protected_namespaces=(),
        serialize_by_alias=True,
        strict=True,
        validate_by_alias=True,
        validate_by_name=True,
    )

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """Validate a decoded JSON value; only wire names are known here.

        Raises:
            pydantic.ValidationError: It does not fit; see `timeleap_protocol.errors.validation_errors`.
        """
        return cls.model_validate(value, by_alias=True, by_name=False)

    def to_wire(self) -> Any:
        """The JSON value: wire names, unset optional fields left out."""
        return self.model_dump(mode="json", by_alias=True)


class WireRoot(RootModel[T]):
    """Base of models that are not objects with fixed fields: a union of shapes, a free object."""

    model_config = ConfigDict(defer_build=True, strict=True)

    @classmethod
    def from_wire(cls, value: object) -> Self:
        """As `WireModel.from_wire`."""
        return cls.model_validate(value, by_alias=True, by_name=False)

    def to_wire(self) -> Any:
        """As `WireModel.to_wire`."""
        return self.model_dump(mode="json", by_alias=True)


class NullIsAbsent(WireModel):
    """Base of what a client sends: null for a field that may be absent means that it is absent."""

    @model_validator(mode="before")
    @classmethod
    def without_nulls(cls, value: Any) -> Any:
        """`value` without the members that are absent but for a null."""
        if not isinstance(value, dict) or None not in value.values():
            return value
        optional = _optional_names(cls)
        return {name: member for name, member in value.items() if member is not None or name not in optional}


@cache
def _optional_names(model: type[WireModel]) -> frozenset[str]:
    """The fields that may be absent, by their names in Python and on the wire."""
    optional = {name: field for name, field in model.model_fields.items() if _ABSENT_WHEN_UNSET in field.metadata}
    return frozenset({*optional, *(field.alias or name for name, field in optional.items())})


Model = WireModel | WireRoot[Any]
"""What a row of the method table may name."""


class Shape(WireModel):
    """Base of what the server sends. Members this version does not know are kept: a newer server may add some."""

    model_config = ConfigDict(extra="allow")


class ReadShape(Shape):
    """Base of the results of what may be answered with less than was committed (`stale` of the method table)."""

    stale: Opt[Literal[True]] = None
    """It may lack what was committed last: no primary of the database answers, a standby or the server's own copy did.
    Only with `timeleap_read=standby` in the store's URL."""


class Params(NullIsAbsent):
    """Base of the params of every method: unknown fields are refused, three general ones are known everywhere."""

    model_config = ConfigDict(extra="forbid")

    meta: Opt[JsonObject] = Field(default=None, alias="_meta")
    """Room for extensions; carries no meaning in this protocol."""
    work_done_token: Opt[Token] = None
    """Asks for `$/progress` under this token."""
    partial_result_token: Opt[Token] = None
    """Accepted for LSP's sake; results always come whole."""


GENERAL_PARAMS = frozenset({"_meta", "workDoneToken", "partialResultToken"})
"""Wire names of the params that every method takes."""


class SessionParams(Params):
    """Base of the params of methods on one session."""

    session_id: SessionId
    """The session."""


class MutationParams(SessionParams):
    """Base of the params of methods that change a session."""

    expected_head: Opt[str] = None
    """Refuse with `contentModified` unless this is the present head."""
    request_id: Opt[RequestId] = None
    """Makes the request safe to retry: a repeat changes nothing and gets the stored result."""


class PageParams(Params):
    """Base of the params of methods that answer in pages."""

    cursor: Opt[str] = None
    """`nextCursor` of the page before."""
    limit: Opt[Limit] = None
    """The most entries to return."""


class Choice(WireModel):
    """Mix-in for params some of whose fields exclude each other.

    Declared, not coded, so that the published schema says the same as the validator.
    """

    alternatives: ClassVar[tuple[tuple[str, ...], ...]]
    """Groups of Python field names; fields of different groups do not go together."""
    must_choose: ClassVar[bool] = True
    """Whether a field of one of the groups has to be given."""
    optional_ways: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Of the groups those that a refusal names only where they were used, so that what it said before they came stays."""
    names_field: ClassVar[bool] = False
    """Whether a refusal is about a field (the one too many, or the first that could be given), not the params as a whole."""

    @model_validator(mode="after")
    def _choose(self) -> Self:
        values = self.__dict__  # of a model that is made for each request
        given = [group for group in self.alternatives for field in group if values.get(field) is not None]
        if len(given) > 1:
            given = list(dict.fromkeys(given))
        if len(given) > 1 or (self.must_choose and not given):
            quantity = "exactly" if self.must_choose else "at most"
            named = [one for one in self.alternatives if not given or one in given or one not in self.optional_ways]
            said = {"rule": f"Give {quantity} one of {self._said(named)}"}
            if self.names_field:
                at = self.alternatives.index(given[-1]) if given else 0
                said["field"] = self.wire_alternatives()[at][0]
            raise PydanticCustomError("choice", "{rule}", said)
        return self

    @classmethod
    def _said(cls, groups: Sequence[tuple[str, ...]]) -> str:
        wire = zip(cls.alternatives, cls.wire_alternatives(), strict=True)
        return ", ".join("/".join(f"'{name}'" for name in names) for group, names in wire if group in groups)

    @classmethod
    def wire_alternatives(cls) -> list[list[str]]:
        """`alternatives` with wire names."""
        return [[cls.model_fields[field].alias or field for field in group] for group in cls.alternatives]
