"""Export of the page to a folder, with copies of its linked files."""

import shutil
from os import fsdecode
from pathlib import Path
from urllib.parse import unquote_to_bytes

from bench_core.errors import StoreError, SuiteError
from bench_reports.view.catalog import Catalog
from bench_reports.view.finding import MARK
from bench_reports.view.linking import FOLDER

PAGE = "index.html"


def write(catalog: Catalog, out: Path) -> Path:
    """Write the page and its linked files to a folder, replacing an earlier export; return the path of the page.

    Raises SuiteError if the folder has other content, StoreError if it cannot be written.
    """
    try:
        if out.exists() and not (out / MARK).is_file() and (not out.is_dir() or any(out.iterdir())):
            raise SuiteError(f"{out} already has other content. Choose a new folder, or one that `bench view` wrote.")
        text = catalog.page()
        out.mkdir(parents=True, exist_ok=True)
        (out / MARK).touch()
        _remove(out / FOLDER)
        for address, path in catalog.files.items():
            copy = out / fsdecode(unquote_to_bytes(address))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy, follow_symlinks=False)
        (out / PAGE).unlink(missing_ok=True)
        (out / PAGE).write_text(text, encoding="utf-8")
    except OSError as error:
        why = str(error.strerror or error).lower()
        raise StoreError(f"{out} cannot be written: {why}. Choose another folder with --out.") from None
    return out / PAGE


def _remove(folder: Path) -> None:
    """Remove a folder with its content, or a link without its target."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
