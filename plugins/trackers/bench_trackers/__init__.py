"""Trackers of experiments: observers that write down what happens in a run."""
