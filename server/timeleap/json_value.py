"""JSON objects as Python has them: the one name that all packages of the server use for their type."""

from typing import Any

Json = dict[str, Any]
