"""The store: where sessions are; making, opening, listing, forking and deleting them."""
