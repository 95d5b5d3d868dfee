"""Commands for authors of plugins and suites."""
