"""Parts of which each is broken in one way."""
