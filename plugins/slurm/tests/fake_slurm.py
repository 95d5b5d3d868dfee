"""The part of Slurm that a client sees: sbatch, srun, squeue and scancel, over processes of this machine.

Called by one of these names. Of each job the folder $FAKE_SLURM holds the script and the state; one that is submitted
with `--begin=never` stays pending.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SLURM"])


def sbatch(path):
    job = str(max((int(one.stem) for one in FOLDER.glob("*.state")), default=100) + 1)
    state(job, "PENDING")
    script = FOLDER / f"{job}.sh"
    script.write_text(Path(path).read_text())
    print(f"Submitted batch job {job}")
    if "--begin=never" not in script.read_text():
        sys.stdout.flush()
        watcher, none = [Path(__file__).with_name("watch"), job], subprocess.DEVNULL
        subprocess.Popen(watcher, stdin=none, stdout=none, stderr=none, start_new_session=True)


def watch(job):
    environment = {**os.environ, "SLURM_JOB_ID": job, "SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1"}
    process = subprocess.Popen(["bash", FOLDER / f"{job}.sh"], env=environment, start_new_session=True)
    (FOLDER / f"{job}.pid").write_text(str(process.pid))
    state(job, "RUNNING")
    code = process.wait()
    if known(job) == "RUNNING":
        state(job, "COMPLETED" if code == 0 else "OUT_OF_MEMORY" if code == 137 else "FAILED")


def srun(*words):
    output, error = (words[words.index(name) + 1] for name in ("--output", "--error"))
    (command,) = (number for number, word in enumerate(words) if word == sys.executable)
    place = {"%j": os.environ["SLURM_JOB_ID"], "%t": "0"}
    streams = [open(re.sub("%[jt]", lambda found: place[found[0]], name), "a") for name in (output, error)]  # noqa: SIM115
    sys.exit(subprocess.call(words[command:], stdout=streams[0], stderr=streams[1]) % 256)


def squeue(*options):
    (jobs,) = (word.partition("=")[2].split(",") for word in options if word.startswith("--jobs="))
    for job in jobs:
        print(job, known(job))


def scancel(*jobs):
    for job in jobs:
        state(job, "CANCELLED")
        if (FOLDER / f"{job}.pid").exists():
            os.killpg(int((FOLDER / f"{job}.pid").read_text()), signal.SIGTERM)


def state(job, word):
    new = FOLDER / f"{job}.new"
    new.write_text(word)
    new.rename(FOLDER / f"{job}.state")


def known(job):
    return (FOLDER / f"{job}.state").read_text()


if __name__ == "__main__":
    command = {"sbatch": sbatch, "watch": watch, "srun": srun, "squeue": squeue, "scancel": scancel}
    command[Path(sys.argv[0]).name](*sys.argv[1:])
