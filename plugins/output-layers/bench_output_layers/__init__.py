"""Output layers of language models: softmax approximations and error-correcting codes, for any network."""
