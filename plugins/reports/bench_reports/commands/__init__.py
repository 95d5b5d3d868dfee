"""One file for each verb that reads a finished run."""
