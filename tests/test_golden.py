"""What the modules outside of keys carry arrives unchanged: the results of two suites, byte by byte, as recorded."""

from __future__ import annotations

import gzip
import json
import os
import platform
import subprocess
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

HERE = Path(__file__).parent
RECORDED = HERE / "recorded" / "results.json"
SUITES = ("recurrent", "trajectories")

#: With these, x86 processors of one vendor compute the same bits, and those of the other do so too, but for the training
#: of codes.
PLAIN = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OPENBLAS_CORETYPE": "Prescott",  # by which gensim learns word vectors
    "OMP_NUM_THREADS": "1",
}


@pytest.mark.slow(1)
@pytest.mark.parametrize(("workers", "suite"), [(workers, suite) for workers in (0, 2) for suite in SUITES])
def test_results_are_byte_for_byte_as_recorded(workers, suite):
    recorded = json.loads(RECORDED.read_text())
    others = recorded.pop("of other processors")
    if recorded["made with"] != made_with() or vendor() not in ("GenuineIntel", *others):
        pytest.skip(f"recorded with {recorded['made with']}, on processors of Intel and {', '.join(others)}")
    wanted = recorded[suite] | others.get(vendor(), {}).get(suite, {})
    command = [sys.executable, __file__, str(workers), suite]
    done = subprocess.run(
        command, env={**os.environ, **PLAIN}, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])[suite]
    assert found == {
        name: found[name] if digest is None else digest for name, digest in wanted.items()
    }  # null: unknown


def results(suite, folder, workers):
    """Run a suite; return the digest of each file of each artifact, by kind and label, and of the cells' numbers."""
    from bench_core import run

    found = run(suite, data=folder, store=folder / "store", out=folder / "runs", workers=workers)
    digests = {"cells": sha256(json.dumps(found.rows()).encode()).hexdigest()}
    for manifest in sorted((folder / "store").glob("*/*/manifest.json")):
        label = json.loads(manifest.read_text())["label"]
        for path in sorted(path for path in manifest.parent.rglob("*") if path.is_file() and path != manifest):
            name = f"{manifest.parent.parent.name} {label}: {path.relative_to(manifest.parent)}"
            digests[name] = sha256(content_of(path)).hexdigest()
    return digests


def content_of(path):
    """Return the content of a file, without what depends on versions of zlib or of code."""
    content = path.read_bytes()
    if path.name == "number.json":  # names its examples by the key of their task, and repeats declared bounds
        number = {name: value for name, value in json.loads(content).items() if name != "bounds"}
        content = json.dumps({**number, "sample": None}).encode()
    if path.name == "task_info.json":  # beside what is recorded, it counts examples that are shared
        facts = json.loads(content)
        facts["extras"].pop("overlap", None)
        content = json.dumps(facts, ensure_ascii=False).encode()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def made_with():
    """Return what else decides the last bits of numbers."""
    return {name: version(name) for name in ("numpy", "torch")} | {"machine": platform.machine()}


def vendor():
    """Return the vendor of the processor, as Linux names it; empty elsewhere."""
    place = Path("/proc/cpuinfo")
    lines = place.read_text().splitlines() if place.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id")), "")


def main():
    """Print the digests of suites, by default of all, as JSON, as `recorded/results.json` has them."""
    found = {"made with": made_with()}
    for name in sys.argv[2:] or SUITES:
        with TemporaryDirectory() as folder:
            found[name] = results(HERE / "traced" / f"{name}.yaml", Path(folder), int(sys.argv[1]))
    print(json.dumps(found, indent=None))


if __name__ == "__main__":
    main()
