"""Error-correcting output codes, other softmax approximations, and mixed training inputs."""
