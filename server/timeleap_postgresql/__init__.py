"""Sessions in a PostgreSQL database, of which each process keeps working copies on its own disk."""
