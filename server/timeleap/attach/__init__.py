"""Sessions that several processes have open: one owns a session, the others attach to it."""
