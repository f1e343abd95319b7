"""The one generator: everything that is published about the protocol is derived here from the table and the models.

`python -m timeleap_protocol.generate` writes it, `--check` compares. Each module makes the text of one kind of file.
"""

from __future__ import annotations

from timeleap_protocol.generate.openrpc import openrpc_document

__all__ = ["openrpc_document"]
