"""The circular block bootstrap: samples, block lengths, and files of replicates.

`drawing` counts how often each example is in each sample, `lengths` estimates block lengths, and `replicates_file`
stores the replicates of many series and reads each series on access. Scores are computed by the caller.
"""

from block_bootstrap.drawing import mark, resamples
from block_bootstrap.lengths import block_length
from block_bootstrap.replicates_file import BLOCKS, REPLICATES, ReplicateScores, StoredReplicates, write_replicates

__all__ = [
    "BLOCKS",
    "REPLICATES",
    "ReplicateScores",
    "StoredReplicates",
    "block_length",
    "mark",
    "resamples",
    "write_replicates",
]
