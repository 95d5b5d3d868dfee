"""Image captioning: the task, generated scenes, image features, and the COCO metrics.

Models that read images or their features are in `bench_indigo` and `bench_ecoc`.
"""
