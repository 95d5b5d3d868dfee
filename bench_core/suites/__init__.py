"""What a suite says: its keys, its names, and whether all of it fits together."""
