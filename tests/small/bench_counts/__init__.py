"""A toy plugin: a kind of stages and a section of suites, in as few lines as these take."""
