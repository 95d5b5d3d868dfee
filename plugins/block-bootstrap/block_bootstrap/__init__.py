"""The circular block bootstrap, without what is resampled: samples, lengths of blocks, and files of replicates.

`drawing` says how often each example is in each sample, `lengths` how many in a row to draw together, and
`replicates_file` keeps the scores of samples of many series, each of which is read when it is asked for.
"""

from block_bootstrap.drawing import mark, resamples
from block_bootstrap.lengths import block_length
from block_bootstrap.replicates_file import BLOCKS, DRAWS, Draws, StoredDraws, write_draws

__all__ = ["BLOCKS", "DRAWS", "Draws", "StoredDraws", "block_length", "mark", "resamples", "write_draws"]
