"""Parts in as few lines as the kit allows."""
