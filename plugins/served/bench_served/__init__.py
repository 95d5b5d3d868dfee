"""Served models, by the completions and chat endpoints of the OpenAI API."""
