"""A SLURM of one machine for tests: its programs with a configuration, a key and folders of their own

Nothing is installed here. On Debian: apt-get install slurmctld slurmd slurm-client munge. The tests must run as root,
because slurmd starts tasks.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.processes import free_port

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "squeue", "munged")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
WHY = "needs root and the Debian packages slurmctld, slurmd, slurm-client and munge"
IS_HERE = not MISSING and os.name == "posix" and os.geteuid() == 0

_CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={machine_port}
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MaxArraySize={array_size}
KillWait=10
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A running SLURM.

    Attributes:
        variables: environment of its commands and jobs.
    """

    variables: dict[str, str]

    def ask(self, *command: object, cwd: Path | None = None) -> str:
        """The output of one of SLURM's commands."""
        done = subprocess.run([*map(str, command)], env=self.variables, cwd=cwd, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def state(self, job: str) -> str:
        """State of a job, such as PENDING, RUNNING, COMPLETED or FAILED."""
        words = dict(word.partition("=")[::2] for word in self.ask("scontrol", "show", "job", job).split())
        return words["JobState"]


@contextmanager
def slurm(variables: dict[str, str], array_size: int = 1001) -> Iterator[Slurm]:
    """Start SLURM with 8 CPUs that this machine need not have, and end it with its jobs.

    Args:
        variables: environment of the jobs.
        array_size: SLURM's MaxArraySize, which is the largest number of an array's task plus one.
    """
    home = Path(tempfile.mkdtemp(prefix="slurm"))  # a short path, because the name of a socket has 108 characters
    ports = [free_port() for _ in range(2)]
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (home / name).mkdir()
    key, config = home / "munge.key", home / "slurm.conf"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    config.write_text(
        _CONFIG.format(home=home, host=host, controller_port=ports[0], machine_port=ports[1], array_size=array_size)
    )
    environment = variables | {"SLURM_CONF": str(config)}
    munge = ["munged", "--foreground", "--force", f"--socket={home}/munge.socket", f"--key-file={key}",
             f"--pid-file={home}/munged.pid", f"--log-file={home}/munged.log", f"--seed-file={home}/seed"]  # fmt: skip
    found = Slurm(environment)
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D"]):
            with open(home / f"{Path(command[0]).name}.out", "wb") as out:
                servers.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            time.sleep(1)
        _wait_until_idle(found)
        yield found
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment, capture_output=True)
        for server in reversed(servers):
            server.terminate()
            server.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def write_answer(folder: Path, command: str, out: str = "", err: str = "", code: int = 0) -> None:
    """Write a script that answers in the place of one of SLURM's commands, where PATH begins with the folder."""
    (folder / f"{command}.out").write_text(out)
    (folder / f"{command}.err").write_text(err)
    script = f"#!/bin/sh\ncat {folder}/{command}.out\ncat {folder}/{command}.err >&2\nexit {code}\n"
    (folder / command).write_text(script)
    (folder / command).chmod(0o755)


def _wait_until_idle(cluster: Slurm) -> None:
    end = time.monotonic() + 60
    while "idle" not in subprocess.run(["sinfo"], env=cluster.variables, capture_output=True, text=True).stdout:
        assert time.monotonic() < end, "SLURM did not start"
        time.sleep(0.5)
