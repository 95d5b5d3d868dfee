"""Reads and writes plain data files safely: gzipped JSON lines, and CSV.

`packed_lines` stores sequences as gzipped JSON lines and reads items one at a time; `shared_lines` writes a value
shared by several lines only once; `csv_text` writes CSV without spreadsheet formulas.
"""

from plain_files.csv_text import csv_lines, from_csv, to_csv
from plain_files.packed_lines import Lines, Spool, StoredLines, read_lines, to_line, write_lines
from plain_files.shared_lines import read_shared, write_shared

__all__ = [
    "Lines",
    "Spool",
    "StoredLines",
    "csv_lines",
    "from_csv",
    "read_lines",
    "read_shared",
    "to_csv",
    "to_line",
    "write_lines",
    "write_shared",
]
