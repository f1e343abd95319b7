"""Sessions of other agents, which go on in their own programs: copied here as they grow, and their files saved."""
