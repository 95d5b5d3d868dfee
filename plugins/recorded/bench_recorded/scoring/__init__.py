"""Scores of files of outputs without a suite."""
