"""Sessions: a log with its state, approvals and lineage; every change of one is a transaction."""
