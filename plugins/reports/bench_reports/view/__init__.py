"""One static page over all runs and reports of a folder: `bench view`.

`finding` walks the folder, `reading` reads what it found (with `curves` and `published`), `linking` lists the files
of reports. `run_data` is what the page knows of a run, `page` writes the page, `catalog` keeps all of this up to
date; `serving` and `writing` bring it to a browser or into a folder. `assets` is the code of the page itself, which
runs in a browser. Not here: statistics other than means and standard deviations; `bench diff` and reports have them.
"""
