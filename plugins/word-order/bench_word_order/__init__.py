"""Word-order recovery: a sentence from the bag of its words."""
