"""Commands that carry runs from place to place, a file each."""
