"""Commands that inspect stores and runs, one per file."""
