"""The store: where sessions are; making, opening, listing, forking and deleting them.

Nothing is imported here, so that a program pays only for the modules it uses.
"""
