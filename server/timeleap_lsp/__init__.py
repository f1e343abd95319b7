"""The Language Server Protocol on the logs of sessions: outline, hover, lenses, diagnostics, and commands, in any editor."""
