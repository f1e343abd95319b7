"""Files of other agents' programs: reading them, and their conversations as records. For imports, and for mirrors."""
