"""How a suite is carried out: cells, stages, workers, what it costs."""
