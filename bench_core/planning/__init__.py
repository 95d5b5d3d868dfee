"""From a suite to the stages that it takes, each once, and the keys of what they leave."""
