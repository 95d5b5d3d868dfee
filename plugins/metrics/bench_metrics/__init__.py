"""Metrics of text and of likelihood.

Not here: metrics of one task (captions, code, words, generation order), which come with the plugin of that task.
"""
