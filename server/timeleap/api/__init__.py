"""The conversation context: messages, compaction, session state, and the public Python API on a storage engine.

Nothing is imported here: the server needs single modules of this package, and not the models of all of them.
The public names are found in `timeleap` itself.
"""
