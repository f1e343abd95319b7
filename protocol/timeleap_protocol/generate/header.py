"""What generated files have in common."""

from __future__ import annotations

NOTICE = "Generated from timeleap_protocol.methods by `python -m timeleap_protocol.generate`. Do not edit."


LINE_LENGTH = 120
"""Of the project's Python code."""


def python_header(summary: str, *comments: str) -> list[str]:
    """The top of a generated Python module."""
    return [f"# {NOTICE}", *comments, f'"""{summary}"""', "", "from __future__ import annotations", ""]


def typescript_header(summary: str) -> list[str]:
    """The top of a generated TypeScript module."""
    return [f"// {NOTICE}", "", f"/** {summary} */", ""]
