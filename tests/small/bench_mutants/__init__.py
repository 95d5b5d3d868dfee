"""Sound toy parts, semantic mutants of each, and parts that are correct and unusual."""
