"""What a forger does after an edit: writes all digests anew, so that files fit their manifest again."""

from __future__ import annotations

import json
from hashlib import sha256

from bench_core.runs.manifest import _digest, files_of


def reseal(folder):
    """Write the manifest of a run or a report anew, of the files that are there now."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["files"] = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256((folder / name).read_bytes()).hexdigest()}
        for name in files_of(folder)
    }
    path.write_text(json.dumps({**data, "digest": _digest(data)}, indent=1), encoding="utf-8")


def edited_lines(path, change):
    """Change the JSON of every line of a file; leave out those for which `change` gives None."""
    found = [change(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text(
        "".join(json.dumps(one, sort_keys=True) + "\n" for one in found if one is not None), encoding="utf-8"
    )


def edited_json(path, change):
    """Change the JSON of a file in place."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
