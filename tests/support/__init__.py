"""What the black-box tests share: a server as a child process, spoken to in raw bytes."""
