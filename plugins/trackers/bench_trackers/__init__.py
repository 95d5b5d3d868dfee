"""Experiment trackers: observers that record the events of a run."""
