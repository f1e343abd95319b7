"""Files that a session has beside its log, one document a module, and the list of them all."""
