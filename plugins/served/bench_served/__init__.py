"""Served models, accessed through the completions and chat endpoints of the OpenAI API."""
