"""Self-terminating language models and a probe of consistency for bench."""
