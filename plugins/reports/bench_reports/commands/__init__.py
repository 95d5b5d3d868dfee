"""Commands of `bench` for finished runs, a file for each command."""
