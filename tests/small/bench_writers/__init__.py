"""Systems that read prompts as text: two kinds of text generators, and a model with a vocabulary of its own."""
