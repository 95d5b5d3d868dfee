"""Word-order recovery: reconstruct a sentence from the bag of its words."""
