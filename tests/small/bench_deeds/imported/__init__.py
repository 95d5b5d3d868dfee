"""Modules that do something when they are imported."""
