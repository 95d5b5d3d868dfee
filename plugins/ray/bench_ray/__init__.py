"""Stages as Ray tasks."""
