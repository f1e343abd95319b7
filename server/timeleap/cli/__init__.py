"""The command line: asks the server as any client does; of everything but `serve` that runs in the command's own process,
or, where it serves for long, as its child."""
