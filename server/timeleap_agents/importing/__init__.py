"""Sessions of other agents' programs as new sessions of ours."""
