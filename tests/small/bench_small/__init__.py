"""A plugin for the core's own tests: a task, a model, decoders and metrics that take no time."""
