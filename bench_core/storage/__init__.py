"""What is kept: artifacts under keys made of all that they depend on."""
