"""Sessions: a log with its state, approvals and lineage; every change of one is a transaction.

Nothing is imported here, so that a program pays only for the modules it uses.
"""
