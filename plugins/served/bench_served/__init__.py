"""Models behind an address, by the completions and chat of the OpenAI API."""
