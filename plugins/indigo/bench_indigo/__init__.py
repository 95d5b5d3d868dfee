"""Insertion-based generation with inferred order (InDIGO), and the Transformers beside it."""
