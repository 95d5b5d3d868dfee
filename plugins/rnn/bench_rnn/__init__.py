"""Recurrent language models for bench."""
