"""The wire protocol of Timeleap: models, the method table, errors and limits.

Importing this package, or its modules `methods`, `errors` and `limits`, loads no model and not pydantic.
"""

from __future__ import annotations

from timeleap_protocol.limits import PROTOCOL_VERSION

__all__ = ["PROTOCOL_VERSION"]
