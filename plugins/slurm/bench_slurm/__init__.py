"""The executor on Slurm."""
