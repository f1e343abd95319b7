"""The modules of `timeleap_protocol.structs`: what judges params before pydantic is loaded (`timeleap_protocol.params`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from timeleap_protocol import params
from timeleap_protocol.base import Choice, Count, Int, Limit, Name, Params, PathText, Positive, RequestId, WireModel
from timeleap_protocol.generate.header import LINE_LENGTH, python_header
from timeleap_protocol.methods import ANSWERED, CLIENT_REQUESTS

_SCALARS = {"Count": Count, "Int": Int, "Limit": Limit, "Name": Name, "PathText": PathText, "Positive": Positive}
_SCALARS["RequestId"] = RequestId

_BOUNDS = ("ge", "gt", "le", "lt", "min_length", "max_length")
"""What both pydantic and msgspec call so."""

READ = [row for row in (*ANSWERED.values(), *CLIENT_REQUESTS.values()) if row.name not in ("shutdown", "rpc.discover")]
"""The methods whose params a server reads; what it asks a client may come from the owner of an attached session."""

_ELSEWHERE = {("InitializeParams", "initialization_options")}
"""Fields whose values the server's settings judge."""


def struct_modules() -> dict[str, str]:
    """The text of each module, by its name: that of the module of the models."""
    models: dict[str, dict[str, type[WireModel]]] = defaultdict(dict)
    for row in READ:
        if not issubclass(row.params_model, WireModel):
            raise TypeError(f"{row.name}: the server needs params with fields")
        for model in _with_nested(row.params_model):
            models[row.params.partition(".")[0]][model.__name__] = model
    return {name: _module(name, list(found.values())) for name, found in models.items()}


def _module(name: str, models: list[type[WireModel]]) -> str:
    used = _Used()
    classes = [line for model in models for line in _class(model, used)]
    header = python_header(f"The structs of `timeleap_protocol.{name}`; see `timeleap_protocol.params`.")
    return "\n".join([*header, *used.imports(), *classes, ""])


def _import_line(module: str, names: Sequence[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    return (
        line
        if len(line) <= LINE_LENGTH
        else "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])
    )


class _Used:
    """The names that a module imports."""

    def __init__(self) -> None:
        self._found: dict[str, set[str]] = defaultdict(set)

    def __call__(self, module: str, name: str) -> str:
        self._found[module].add(name)
        return name

    def imports(self) -> list[str]:
        blocks = [
            [_import_line(module, sorted(self._found[module]))]
            for module in ("typing", "msgspec", params.__name__)
            if module in self._found
        ]
        return "\n\n".join("\n".join(block) for block in blocks).split("\n")


def _with_nested(model: type[WireModel]) -> Iterator[type[WireModel]]:
    """A model after those that its fields have."""
    for name, field in model.model_fields.items():
        if (model.__name__, name) not in _ELSEWHERE:
            for inner in _parts(field.annotation):
                if isinstance(inner, type) and issubclass(inner, WireModel):
                    yield from _with_nested(inner)
    yield model


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)


def _class(model: type[WireModel], used: _Used) -> list[str]:
    general = Params.model_fields if issubclass(model, Params) else {}
    strict = "StrictStruct" if model.model_config.get("extra") == "forbid" else "LenientStruct"
    base = used(params.__name__, "ParamsStruct" if general else strict)
    lines = ["", "", f"class {model.__name__}({base}, kw_only=True):"]
    fields = {
        name: field
        for name, field in model.model_fields.items()
        if name not in general and (model.__name__, name) not in _ELSEWHERE
    }
    lines += [line for name, field in fields.items() for line in _field(name, field, used)]
    if issubclass(model, Choice):
        lines += ["", *_choice(model, used)]
    return lines if lines[3:] else [*lines, f'    """`{model.__name__}` has no fields of its own."""']


def _field(name: str, field: FieldInfo, used: _Used) -> Iterator[str]:
    takes_null = NoneType in get_args(field.annotation)
    if takes_null and not field.is_required() and field.default is not None:
        raise ValueError(f"{name}: a field that may be absent is None then")
    text = f"    {name}: {_type(field.annotation, field.metadata, used)}"
    if field.alias != to_camel(name):
        default = "" if field.is_required() else "default=None, "
        text += f" = {used('msgspec', 'field')}({default}name={_quoted(field.alias)})"
    elif not field.is_required():
        text += " = None"
    if len(text) > LINE_LENGTH:
        raise ValueError(f"{name}: too long a line; give its type a name in {params.__name__}")
    yield text


def _type(annotation: Any, metadata: Iterable[Any], used: _Used) -> str:
    """A type as source text, with the bounds that pydantic checks."""
    bounds = list(metadata)
    if get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        bounds += more
    bounds = [item for entry in bounds for item in (entry.metadata if isinstance(entry, FieldInfo) else [entry])]
    if get_origin(annotation) in (Union, UnionType):
        inner = [arg for arg in get_args(annotation) if arg is not NoneType]
        texts = [_type(arg, bounds if len(inner) == 1 else (), used) for arg in inner]
        return " | ".join(texts + ["None"] * (len(inner) < len(get_args(annotation))))
    checks = _checks(bounds)
    for name, scalar in _SCALARS.items():
        if checks and (annotation, checks) == _plain(scalar):
            return used(params.__name__, name)
    text = _unchecked(annotation, used)
    if not checks:
        return text
    meta = ", ".join(f"{name}={value!r}" for name, value in checks.items())
    return f"{used('typing', 'Annotated')}[{text}, {used('msgspec', 'Meta')}({meta})]"


def _plain(scalar: Any) -> tuple[Any, dict[str, Any]]:
    annotation, *bounds = get_args(scalar)
    return annotation, _checks([item for entry in bounds for item in getattr(entry, "metadata", [entry])])


def _checks(bounds: list[Any]) -> dict[str, Any]:
    """What a struct checks of a value, as arguments of `msgspec.Meta`; that a path has no NUL is said by its name."""
    found: dict[str, Any] = {}
    for bound in bounds:
        found |= {name: getattr(bound, name) for name in _BOUNDS if hasattr(bound, name)}
        if isinstance(bound, AfterValidator):
            found["function"] = bound.func.__name__
    return found


def _unchecked(annotation: Any, used: _Used) -> str:
    origin = get_origin(annotation)
    if origin is Literal:
        return f"{used('typing', 'Literal')}[{', '.join(map(_quoted, get_args(annotation)))}]"
    if origin is list:
        return f"list[{_type(get_args(annotation)[0], (), used)}]"
    if origin is dict:
        return used(params.__name__, "JsonObject")
    if not issubclass(annotation, BaseModel | str | int | float):
        raise TypeError(f"no struct has a field of type {annotation}")
    return str(annotation.__name__)


def _choice(model: type[Choice], used: _Used) -> list[str]:
    if model.must_choose and all(len(group) == 1 for group in model.alternatives):
        fields = ", ".join(f"self.{name}" for (name,) in model.alternatives)
        if len(model.alternatives) == 2:  # without a call: an append is judged by it
            first, second = (f"self.{name} is None" for (name,) in model.alternatives)
            raised = f"            raise ValueError({_quoted(params.EXCLUDED)})"
            return ["    def __post_init__(self) -> None:", f"        if ({first}) is ({second}):", raised]
        return ["    def __post_init__(self) -> None:", f"        {used(params.__name__, 'choose_one')}({fields})"]
    groups = [f"({', '.join(f'self.{name}' for name in group)},)" for group in model.alternatives]
    groups = [group if group.count("self.") == 1 else group.replace(",)", ")") for group in groups]
    arguments = f"{', '.join(groups)}, required={model.must_choose}"
    return ["    def __post_init__(self) -> None:", f"        {used(params.__name__, 'choose')}({arguments})"]


def _quoted(value: Any) -> str:
    return f'"{value}"'
