"""Language modeling tasks for bench: sentence completion and streams."""
