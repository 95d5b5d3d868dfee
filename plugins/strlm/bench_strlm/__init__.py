"""Self-terminating language models and consistency certificates for bench."""
