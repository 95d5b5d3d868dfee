"""Generation on a canvas with places: masked diffusion, and decoders that choose which places to write."""
