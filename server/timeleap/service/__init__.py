"""The service: what methods of the contract do with sessions, in which order, and who is told."""
