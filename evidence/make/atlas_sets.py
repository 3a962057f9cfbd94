"""Lays out the photographs of docs/atlas.md as folders of classes, from local clones of public repositories.

    python evidence/make/atlas_sets.py CLONES OUT [SET...]

CLONES has a clone of each set's repository, under the name of the set. Where one is missing, this command prints the
lines that clone it. It needs no network itself. evidence/atlas/sets.toml names repositories, commits and files. These
become OUT/SET/CLASS/NAME. Of equal files the first stays, and files that lie in two classes are left out. A set of
more than 5,000 files is cut to those with the lowest git hashes. The hash of sets.toml covers all names and contents.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from definitions import EVIDENCE

SETS = EVIDENCE / "atlas" / "sets.toml"
MOST = 5000  # photographs of a set


@dataclass(frozen=True)
class PhotoSet:
    """A set of photographs. The attributes are explained in evidence/atlas/sets.toml."""

    name: str
    kind: str
    license: str
    repository: str
    commit: str
    files: str
    sha256: str
    source: str = ""

    @property
    def url(self) -> str:
        """The address of the repository."""
        return f"https://github.com/{self.repository}"


def read_sets(path: Path = SETS) -> dict[str, PhotoSet]:
    """The sets of a file by their names."""
    return {name: PhotoSet(name, **one) for name, one in tomllib.loads(path.read_text(encoding="utf-8")).items()}


def laid_out(one: PhotoSet, clone: Path, out: Path) -> str:
    """Write the files of a set into a folder, whole or not at all; returns their hash.

    Raises:
        SystemExit: the clone lacks the commit or some of its files, or the hash is not that of the set.
    """
    target, partial = out / one.name, out / f"{one.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    whole = hashlib.sha256()
    for name, blob in sorted(chosen_files(one, clone).items()):
        content = _git(clone, "cat-file", "blob", blob)
        path = partial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        whole.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    found = whole.hexdigest()
    if one.sha256 and found != one.sha256:
        shutil.rmtree(partial)
        raise SystemExit(f"{one.name}: the files of {clone} have hash {found}, not {one.sha256}; clone it again")
    if target.exists():
        shutil.rmtree(partial)
        raise SystemExit(f"{target} exists; remove it, or give another folder")
    partial.rename(target)
    return found


def chosen_files(one: PhotoSet, clone: Path) -> dict[str, str]:
    """{CLASS/NAME: git hash} of the files of a set."""
    entries = [line.split("\t") for line in _git(clone, "ls-tree", "-r", "-z", one.commit).decode().split("\0") if line]
    labels: dict[str, dict[str, str]] = {}  # {git hash: {class: CLASS/NAME of the first path}}
    for facts, path in sorted(entries, key=lambda entry: entry[1]):
        if (match := re.fullmatch(one.files, path)) is not None:
            own = labels.setdefault(facts.split()[2], {})
            own.setdefault(match["label"], f"{match['label']}/{path.replace('/', '__')}")
    single = sorted(blob for blob, own in labels.items() if len(own) == 1)
    if not single:
        raise SystemExit(f"{one.name}: no file of {clone} matches {one.files}")
    return {name: blob for blob in single[:MOST] for name in labels[blob].values()}


def _git(clone: Path, *words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(clone), *words], capture_output=True, check=False)  # noqa: S603, S607
    if done.returncode:
        commit = f"; git -C {clone} fetch origin COMMIT brings a missing commit"
        raise SystemExit(f"git {' '.join(words)} in {clone}: {done.stderr.decode().strip()}{commit}")
    return done.stdout


def missing_clones(sets: Mapping[str, PhotoSet], wanted: Sequence[str], clones: Path) -> list[str]:
    """The lines that clone the repositories of sets that a folder lacks."""
    return [f"git clone {sets[name].url} {clones / name}" for name in wanted if not (clones / name).is_dir()]


def main(words: Sequence[str] | None = None) -> None:
    """Lay out sets, and print the number of their files and their hashes."""
    sets = read_sets()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="*", choices=[[], *sets], metavar="SET")
    given = parser.parse_args(words)
    wanted = [name for name in given.sets or sets if not (given.out / name).exists()]
    if lines := missing_clones(sets, wanted, given.clones):
        print("\n".join(lines))
        raise SystemExit(f"{len(lines)} clones are missing in {given.clones}; run the lines above")
    for name in wanted:
        found = laid_out(sets[name], given.clones / name, given.out)
        count = sum(path.is_file() for path in (given.out / name).glob("*/*"))
        print(f"{name}: {count:,} files, {found}", flush=True)


if __name__ == "__main__":
    main()
