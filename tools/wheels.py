"""Build the wheels of all distributions in dist/, with lists of their third-party requirements.

`dist/requirements/all.txt` lists the third-party requirements of bench-all, `NAME.txt` the requirements of its extra
NAME, and `DISTRIBUTION.txt` the requirements of a single distribution. Once these are installed, our wheels can be
installed without a package index, on which others could have registered our names.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from projects import META, projects, third_parties


def main(folder: Path) -> None:
    """Build every wheel into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for project in projects().values():
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
        subprocess.run([*build, str(project.folder)], check=True, stdout=subprocess.DEVNULL)
    ways = {"all": META, **{extra: f"{META}[{extra}]" for extra in projects()[META].extras}}
    ways |= {name: name for name in projects() if name != META}
    (folder / "requirements").mkdir()
    for name, requirement in ways.items():
        lines = third_parties([requirement])
        (folder / "requirements" / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    print(f"{len(projects())} wheels in {folder}. Install them in another environment:")
    print(f"    python -m pip install -r {folder}/requirements/all.txt")
    print(f"    python -m pip install --no-index --find-links {folder} {META}=={projects()[META].version}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("dist"))
