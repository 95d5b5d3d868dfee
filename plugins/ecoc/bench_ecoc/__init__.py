"""Error-correcting output codes and other approximations of the softmax, and mixed training inputs."""
