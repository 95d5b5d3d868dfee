"""Code generation: the task from pseudo-code to Python, and its metrics."""
