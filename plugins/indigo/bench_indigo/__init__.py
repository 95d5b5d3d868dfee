"""Insertion-based generation with inferred order (InDIGO), the Insertion Transformer, and the Transformer."""
