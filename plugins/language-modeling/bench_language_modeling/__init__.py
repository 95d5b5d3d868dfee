"""Language modeling: the sentence completion and stream tasks."""
