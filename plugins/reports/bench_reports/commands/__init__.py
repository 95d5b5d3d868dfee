"""Commands that read finished runs, a file each."""
