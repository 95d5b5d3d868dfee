"""Error-correcting output codes, other approximations of the softmax, and mixing of predictions into inputs."""
