"""Self-terminating language models, and the consistency probe."""
