"""Tasks in one method."""
