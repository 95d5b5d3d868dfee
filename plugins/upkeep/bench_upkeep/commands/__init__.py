"""Commands that look after stores and runs, a file each."""
