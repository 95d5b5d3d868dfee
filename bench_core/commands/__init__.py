"""A file for each verb of the command line."""
