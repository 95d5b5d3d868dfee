"""Plain files of data that are read as carefully as they are written: JSON in lines, and CSV.

`packed_lines` keeps sequences on disk as gzipped lines of JSON, and reads their items one by one; `shared_lines`
writes values that lines have in common once; `csv_text` is CSV in which no spreadsheet finds a formula.
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
