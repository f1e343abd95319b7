"""The command line: asks the server as any client does. The server runs in the command's own process or, where it
serves for long, as its child."""
