"""Commands for authors of plugins and suites, a file each."""
