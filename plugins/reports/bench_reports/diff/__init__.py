"""The comparison of two cells of a run: what differs, how surely, and by example."""
