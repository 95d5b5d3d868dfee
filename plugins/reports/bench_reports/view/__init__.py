"""A static page with all runs and reports of a folder: `bench view`.

`finding` walks the folder, `reading` reads runs and reports (with `curves` and `published`), and `linking` lists the
files of reports. `run_data` is the page's data of a run, `page` writes the page, and `catalog` keeps it up to date;
`serving` serves it to a browser, `writing` writes it to a folder. `assets` has the scripts of the page. Its only
statistics are means and standard deviations; `bench diff` and reports have tests.
"""
