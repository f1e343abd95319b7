"""The words of a command or a group, as its author wrote them."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap

from timeleap.cli.parameters import Commands, Registered


def summary_of(member: Registered | Commands) -> str:
    """The first sentence about a command, or a group."""
    text = member.help if isinstance(member, Commands) else documentation(member)
    return re.split(r"(?<=[.:;])\s", " ".join(text.split("\n\n")[0].split()), maxsplit=1)[0].rstrip(":;")


def documentation(member: Registered) -> str:
    """The docstring of a command; read from its source where Python runs without docstrings (`-OO`)."""
    text = member.function.__doc__
    if text is None and sys.flags.optimize > 1:
        import ast

        tree = ast.parse(textwrap.dedent(inspect.getsource(member.function)))
        function = tree.body[0]
        text = ast.get_docstring(function) if isinstance(function, ast.FunctionDef) else None
    return inspect.cleandoc(text or "")
