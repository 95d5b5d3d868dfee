"""Code generation: translating pseudo-code to Python, and metrics for this task."""
