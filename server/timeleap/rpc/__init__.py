"""The protocol edge: from bytes on a stream to calls of the service, and back.

Read `connection` first (the flow), then `timeleap_protocol.framing`, `codec`, `protocol` in the order a byte meets
them; `stdio` carries a connection over the process's own descriptors, `serve` is the process.
"""
