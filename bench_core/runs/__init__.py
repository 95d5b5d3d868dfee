"""What a run leaves, and how runs travel and are put together."""
