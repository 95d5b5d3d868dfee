"""Image captioning for bench: annotations, generated scenes, features, and the metrics of the COCO evaluation."""
