"""Image captioning: the task, generated scenes, image features, and the metrics of the COCO evaluation."""
