"""The command line: everything but `serve` starts the real server as a child and speaks to it as any client does."""
