"""The rows of `make results`, and the sections and claims of its pages: what evidence/make/rows.toml says."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "evidence"
MAKE = EVIDENCE / "make"
MADE = Path("runs") / "evidence"  # folder of images that scripts make


@dataclass(frozen=True)
class Published:
    """Accuracies that others published, to stand beside those of a row.

    Attributes:
        words: whose they are, and how they were made.
        series: two series of the row that they are like.
        sizes: numbers of training images.
        accuracies: test accuracies in percent of both, at each of `sizes`.
    """

    words: str
    series: tuple[str, str]
    sizes: tuple[int, ...]
    accuracies: tuple[tuple[float, ...], tuple[float, ...]]

    @classmethod
    def from_toml(cls, values: Mapping[str, Any]) -> "Published":
        """An entry of evidence/make/rows.toml."""
        first, second = values["series"]
        one, other = (tuple(map(float, row)) for row in values["accuracies"])
        assert len(one) == len(other) == len(values["sizes"]), "an accuracy of each network at each size"
        return cls(values["words"], (first, second), tuple(values["sizes"]), (one, other))


@dataclass(frozen=True)
class Row:
    """A study that is kept. The attributes are explained in evidence/make/rows.toml."""

    name: str
    title: str
    data: str
    needs: str = ""
    folders: bool = False
    makes: str = ""
    starts: str = ""
    teachers: str = ""
    study: bool = True
    board: bool = False
    front: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder of the study."""
        return EVIDENCE / self.name

    @property
    def config(self) -> str:
        """The file of the study, as `--config` takes it: a path from the top of the repository, or a shipped name."""
        own = f"{MAKE.relative_to(ROOT)}/studies/{self.name}.yaml"
        return own if (ROOT / own).is_file() else f"studies/{self.name}"

    @property
    def command(self) -> str:
        """The command that trains the cells, or the scripts where nothing is trained."""
        if not self.study:
            return "; ".join(f"python evidence/make/{words} {self.name}" for words in self.measures)
        data = "FOLDER " if self.folders else f"{MADE / self.name} " if self.makes else ""
        root = " --data.root FOLDER" if self.needs and not self.folders else ""
        study = f"vit study {data}--config {self.config}{root}"
        commands = [f"python evidence/make/{self.starts} {MADE / self.name}"] if self.starts else []
        if self.teachers:  # their folder is named in the study
            study += f" --out {EVIDENCE.name}"
            commands.append(f"{study} --networks {self.teachers}")
        return "`, then `".join([*commands, study])


@dataclass(frozen=True)
class Section:
    """A section of docs/results.md. The attributes are explained in evidence/make/rows.toml."""

    title: str
    text: str
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A section of docs/claims.md. The attributes are explained in evidence/make/rows.toml."""

    name: str
    title: str
    row: str
    said: str
    text: str
    compare: tuple[tuple[str, str], ...] = ()
    expects: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    drawn: str = ""
    axis: str = ""
    value: str = "test accuracy"
    measured: str = ""
    lines: bool = False
    across: bool = False
    sizes: bool = False

    @property
    def by_condition(self) -> bool:
        """Whether two series are compared under each kind of test images."""
        return bool(self.measured) and not self.lines and not self.across

    @property
    def series(self) -> list[str]:
        """The compared series."""
        return list(dict.fromkeys(name for pair in self.compare for name in pair))


@dataclass(frozen=True)
class Evidence:
    """What evidence/make/rows.toml says.

    Attributes:
        rows: rows by their names.
        sections: sections of docs/results.md, in their order.
        claims: claims of docs/claims.md, in their order.
    """

    rows: Mapping[str, Row]
    sections: tuple[Section, ...]
    claims: tuple[Claim, ...]


def read_evidence() -> Evidence:
    """Everything of evidence/make/rows.toml."""
    content = tomllib.loads((MAKE / "rows.toml").read_text(encoding="utf-8"))
    rows = {
        name: Row(
            name=name,
            **{
                **values,
                "front": tuple(values.get("front", ())),
                "measures": tuple(values.get("measures", ())),
                "published": tuple(map(Published.from_toml, values.get("published", ()))),
            },
        )
        for name, values in content["row"].items()
    }
    sections = tuple(Section(one["title"], one["text"], tuple(one["rows"])) for one in content["section"])
    claims = tuple(
        Claim(
            **{
                **values,
                "compare": tuple((first, second) for first, second in values.get("compare", ())),
                "expects": tuple(values.get("expects", ())),
            }
        )
        for values in content["claim"]
    )
    return Evidence(rows, sections, claims)
