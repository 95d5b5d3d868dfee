"""Image captioning: the task, generated scenes, image features, and the metrics of the COCO evaluation.

Not here: models; those that read features are in `bench_indigo` and `bench_ecoc`.
"""
