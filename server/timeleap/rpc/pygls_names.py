"""The names of pygls the edge is built on, imported without its Language Server half's weight.

Written against pygls 2.1 (pinned in `pyproject.toml`). Its JSON-RPC half gives us the registry of handlers, their
execution and the table of what is running; `timeleap.rpc.protocol` overrides the rest and says why.
`tests/unit/rpc/test_pygls_contract.py` fails when a name we override or call changes.
"""

from __future__ import annotations

from timeleap.rpc.lsptypes import standing_in

with standing_in():
    from pygls.exceptions import JsonRpcMethodNotFound, PyglsError
    from pygls.protocol.json_rpc import JsonRPCProtocol
    from pygls.server import JsonRPCServer

__all__ = ["JsonRPCProtocol", "JsonRPCServer", "JsonRpcMethodNotFound", "PyglsError"]
