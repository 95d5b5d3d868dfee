"""The executor on Ray."""
