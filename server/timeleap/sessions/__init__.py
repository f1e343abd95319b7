"""Sessions: a log with its state, approvals and lineage, and the store that keeps many of them.

Nothing is imported here, so that a program pays only for the modules it uses.
"""
