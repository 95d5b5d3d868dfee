"""Code generation for bench: from pseudo-code to Python."""
