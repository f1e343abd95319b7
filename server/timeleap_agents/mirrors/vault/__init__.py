"""The vault: the bytes of agents' files, kept as they are read, and given back when their program has changed or deleted
them."""
