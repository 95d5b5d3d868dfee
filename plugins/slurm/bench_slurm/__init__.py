"""Stages as Slurm jobs."""
