"""Word-order recovery for bench: a sentence from the bag of its words."""
