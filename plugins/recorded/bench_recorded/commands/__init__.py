"""Commands: a file each."""
