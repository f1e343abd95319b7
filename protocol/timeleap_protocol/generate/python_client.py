"""Typed methods of the Python client: one coroutine per request, and the same for callers that wait."""

from __future__ import annotations

import keyword
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from timeleap_protocol.base import GENERAL_PARAMS, WireModel
from timeleap_protocol.generate.docs import field_docs
from timeleap_protocol.generate.header import LINE_LENGTH, python_header
from timeleap_protocol.methods import METHODS, REQUESTS, Method

_BY_HAND = ("initialize", "shutdown")
"""The client library sends these itself."""


def async_module() -> str:
    """The text of `timeleap_client/_methods_async.py`."""
    methods = [line for row in _rows() for line in _method(row)]
    summary = "Every request of the protocol as a coroutine."
    return "\n".join(
        [
            *python_header(
                summary, "# ruff: noqa: A002, ASYNC109 (params are called what they are called on the wire)"
            ),
            "from abc import ABC, abstractmethod",
            "from typing import Any, Literal, TypeVar",
            "",
            "from timeleap_client import _models as models",
            "from timeleap_client.connection import Params, given",
            "",
            'R = TypeVar("R", bound="models.base.WireModel | models.base.WireRoot[Any]")',
            "",
            "",
            "class AsyncMethods(ABC):",
            f'    """{summary} Params that are None are not sent."""',
            "",
            "    @abstractmethod",
            "    async def call(self, method: str, params: Params, result: type[R]) -> R:",
            '        """Send a request and return its result as `result`; an error reply is raised."""',
            *methods,
            "",
        ]
    )


def sync_module() -> str:
    """The text of `timeleap_client/_methods_sync.py`."""
    summary = "Every request of the protocol as a method that waits for the reply."
    return "\n".join(
        [
            *python_header(summary),
            "from timeleap_client._methods_async import AsyncMethods",
            "from timeleap_client.loop import Blocking, blocking",
            "",
            "",
            "class SyncMethods(Blocking[AsyncMethods]):",
            f'    """{summary} Typed and described as in `AsyncMethods`."""',
            "",
            *(f"    {row.python_name} = blocking(AsyncMethods.{row.python_name})" for row in _rows()),
            "",
        ]
    )


def names_module() -> str:
    """The text of `timeleap_client/method_names.py`."""
    rows = sorted(
        (row for row in METHODS.values() if "/" in row.name and "$" not in row.name), key=lambda row: row.name
    )
    return "\n".join(
        [
            *python_header(
                "The names of messages, for `RawTimeleap.call` and `on`: a misspelled one is an error of types.",
                "# ruff: noqa: S105 (tokens are counted, not secret)",
            ),
            "from typing import Final",
            "",
            *(f'{row.python_name.upper()}: Final = "{row.name}"' for row in rows),
            "",
        ]
    )


def _rows() -> list[Method]:
    return [row for row in REQUESTS.values() if row.name not in _BY_HAND]


def _used(model: type) -> str:
    """A model class, as the module mentions it."""
    return f"models.{model.__module__.removeprefix('timeleap_protocol.')}.{model.__name__}"


def _method(row: Method) -> list[str]:
    model = row.params_model
    if row.result_model is None or not issubclass(model, WireModel):
        raise ValueError(f"{row.name}: the client needs params with fields and a result")
    result = _used(row.result_model)
    fields = {
        name: field
        for name, field in model.model_fields.items()
        if (field.alias or name) not in GENERAL_PARAMS or (row.progress and name == "work_done_token")
    }
    order = sorted(fields, key=lambda name: (not fields[name].is_required(), name == "work_done_token"))
    signature = [_parameter(name, fields[name]) for name in order]
    sent = [f'"{fields[name].alias or name}": {name}' for name in order]
    nulls = [entry for name, entry in zip(order, sent, strict=True) if _takes_null(fields[name])]
    return [
        "",
        *_signature(f"    async def {row.python_name}", signature, result),
        *_docstring(row, model, order),
        *_call(row, [entry for entry in sent if entry not in nulls], nulls, result),
    ]


def _takes_null(field: FieldInfo) -> bool:
    """Whether null is a value to be sent; elsewhere None means absent."""
    return field.is_required() and NoneType in get_args(field.annotation)


def _parameter(name: str, field: FieldInfo) -> str:
    if keyword.iskeyword(name):
        raise ValueError(f"{name} is a keyword")
    text = f"{name}: {_annotation(field.annotation)}"
    return text if field.is_required() else f"{text} = None"


def _annotation(annotation: Any) -> str:
    """A type as source text; what it validates (lengths, bounds) is left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _annotation(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(_annotation(arg) for arg in get_args(annotation)))
    if origin is Literal:
        return "Literal[" + ", ".join(_literal(arg) for arg in get_args(annotation)) + "]"
    if origin is list:
        return f"list[{_annotation(get_args(annotation)[0])}]"
    if origin is dict:
        return "Params"
    if annotation is NoneType:
        return "None"
    return _used(annotation) if issubclass(annotation, WireModel) else str(annotation.__name__)


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _signature(start: str, parameters: list[str], result: str) -> list[str]:
    if not parameters:
        return [f"{start}(self) -> {result}:"]
    line = f"{start}(self, *, {', '.join(parameters)}) -> {result}:"
    if len(line) <= LINE_LENGTH:
        return [line]
    return [
        f"{start}(",
        "        self,",
        "        *,",
        *(f"        {text}," for text in parameters),
        f"    ) -> {result}:",
    ]


def _docstring(row: Method, model: type[WireModel], order: list[str]) -> list[str]:
    docs = field_docs(model)
    summary = row.summary[0].lower() + row.summary[1:]
    described = [f"            {name}: {' '.join(docs[name].split())}" for name in order if name in docs]
    if not described:
        return [f'        """`{row.name}`: {summary}"""']
    return [f'        """`{row.name}`: {summary}', "", "        Args:", *described, '        """']


def _call(row: Method, sent: list[str], nulls: list[str], result: str) -> list[str]:
    start = f'        return await self.call("{row.name}", '
    line = f"{start}given({{{', '.join(sent)}}}), {result})"
    if not sent:
        return [f"{start}{{}}, {result})"]
    if len(line) <= LINE_LENGTH and not nulls:
        return [line]
    return [
        "        params = given(",
        "            {",
        *(f"                {text}," for text in sent),
        "            }",
        "        )" + (f" | {{{', '.join(nulls)}}}" if nulls else ""),
        f"{start}params, {result})",
    ]
