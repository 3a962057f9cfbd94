"""Hooks of the documentation site: pages generated from the code, and a check that pages load nothing from elsewhere.

MkDocs calls the functions named `on_...` (mkdocs.yml lists this file). The command reference is the output of
`vit COMMAND --help all`. The API reference has a page for what `import vit` offers, and one for each room. The page of
recipes has the files of `configs/`, whose comments say why.
"""

import ast
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vit"
INTERNAL = {"commands"}  # rooms whose functions the command reference shows already
REPOSITORY_FILES = {"contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
LOADING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "link": ("href",),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
}
NOT_LOADED = {"canonical", "alternate", "next", "prev", "author", "license", "me"}  # kinds of <link>
ELSEWHERE = re.compile(r"(?:^|[\s,])(?:https?:)?//", re.IGNORECASE)
STYLE_ELSEWHERE = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])\s*(?:https?:)?//", re.IGNORECASE)


# Pages that are generated


def command_names() -> list[str]:
    """The subcommands of `vit`, in the order of `vit --help`."""
    from vit.__main__ import COMMANDS

    return list(COMMANDS)


def help_of(name: str) -> str:
    """What `vit NAME --help all` prints."""
    command = [sys.executable, "-m", "vit", name, "--help", "all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


def command_page(name: str, text: str) -> str:
    """The page of one command: its help, and a link to the function of the same name."""
    home = public_functions().get(name)
    link = f"In Python the same command is [`vit.{name}`][{home}]. " if home else ""
    return f"# vit {name}\n\n{link}This page is the output of `vit {name} --help all`.\n\n```text\n{text}\n```\n"


def public_functions() -> dict[str, str]:
    """What `import vit` offers: each name of `__all__` and where it is defined, read without importing torch."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    homes: dict[str, str] = {}
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            homes |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names = ast.literal_eval(node.value)
    return {name: homes.get(name, f"vit.{name}") for name in names}


def rooms() -> dict[str, list[str]]:
    """Rooms of the package and the full names of their modules."""
    found = {}
    for folder in sorted(path for path in PACKAGE.iterdir() if path.is_dir() and path.name not in INTERNAL):
        files = sorted(path for path in folder.rglob("*.py") if path.stem != "__init__")
        modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files]
        if modules:
            found[folder.name] = modules
    return found


def python_page() -> str:
    """The page of what `import vit` offers."""
    parts = ["# import vit\n\nThese functions are all that `import vit` offers. Most commands are among them.\n"]
    for name, home in public_functions().items():
        parts.append(f"::: {home}\n    options:\n      heading: vit.{name}\n      toc_label: vit.{name}\n")
    return "\n".join(parts)


def room_page(name: str, modules: list[str]) -> str:
    """The page of one room."""
    note = "This page is generated from the docstrings. [Architecture](../architecture.md) shows the room's place."
    parts = [f"# vit.{name}\n\n{note}\n"]
    parts += [f"::: {module}\n" for module in modules]
    return "\n".join(parts)


def recipes_page() -> str:
    """The page of shipped recipes: a table from their first lines, and each file with its reasons."""
    parts = []
    rows = ["| recipe | for | measured | time |", "|---|---|---|---|"]
    for path in sorted((ROOT / "configs").rglob("*.yaml")):
        name, text = path.relative_to(ROOT / "configs").with_suffix("").as_posix(), path.read_text(encoding="utf-8")
        about, facts = recipe_header(text)
        anchor = name.replace("/", "")
        rows.append(f"| [{name}](#{anchor}) | {about} | {facts['expected']} | {facts['time']} |")
        parts.append(f"## {name}\n\n```yaml\n{text.strip()}\n```\n")
    note = (
        "`vit train --print_config` prints a recipe with every value. Comments in a file say why a value differs from "
        "the default, and [Choices](../measurements.md#choices) says why defaults are what they are.\n"
    )
    return "\n".join(["# Recipes: defaults and why\n", note, *rows, "", *parts])


def recipe_header(text: str) -> tuple[str, dict[str, str]]:
    """The first line of a recipe, and what the other lines of its header say, by their first word."""
    header = re.match(r"(?:#.*\n)+", text)
    assert header
    lines = [line.removeprefix("#").removeprefix(" ") for line in header[0].splitlines()]
    facts: dict[str, str] = {}
    word = ""
    for line in lines[1:]:
        if match := re.match(r"(\w+):\s+(.*)", line):
            word = match[1]
            facts[word] = match[2]
        elif word and line.startswith("  "):
            facts[word] += f" {line.strip()}"
    return lines[0], facts


def repository_page(text: str) -> str:
    """A Markdown file of the repository's root as a page: its links to docs/ become links beside it."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((?:\./)?(CONTRIBUTING|SECURITY)\.md", lambda match: f"]({match[1].lower()}.md", text)


def generated_pages() -> dict[str, str]:
    """Paths below docs/ and the text of each page that is generated."""
    names = command_names()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        helps = dict(zip(names, pool.map(help_of, names), strict=True))
    pages = {f"reference/commands/{name}.md": command_page(name, text) for name, text in helps.items()}
    pages["reference/python.md"] = python_page()
    pages["reference/recipes.md"] = recipes_page()
    pages |= {f"reference/{name}.md": room_page(name, modules) for name, modules in rooms().items()}
    for page, file in REPOSITORY_FILES.items():
        pages[page] = repository_page((ROOT / file).read_text(encoding="utf-8"))
    return pages


# What MkDocs calls


def on_config(config: Any) -> Any:
    """Put the generated pages of the reference into the navigation."""
    reference = next(entry["Reference"] for entry in config["nav"] if "Reference" in entry)
    reference.append({"Exit codes": "reference/exit_codes.md"})
    reference.append({"Commands": [{f"vit {name}": f"reference/commands/{name}.md"} for name in command_names()]})
    reference.append({"Recipes: defaults and why": "reference/recipes.md"})
    reference.append({"Python": "reference/python.md"})
    reference.append({"Package": [{f"vit.{name}": f"reference/{name}.md"} for name in rooms()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, and the notebooks as files to download."""
    from mkdocs.structure.files import File

    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.name}", abs_src_path=str(notebook)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to notebooks, which lie beside docs/ in the repository and within the site."""
    return re.sub(r"\]\(((?:\.\./)*)\.\./notebooks/", r"](\1notebooks/", markdown)


def on_post_build(config: Any) -> None:
    """Fail where a page would load anything from elsewhere."""
    from mkdocs.exceptions import PluginError

    found = loads_from_elsewhere(Path(config["site_dir"]))
    if found:
        raise PluginError("pages load files from elsewhere:\n" + "\n".join(found))


# The check


class _Loads(HTMLParser):
    """Collects what a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at the attributes of a tag that make a browser load a file."""
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and set(values.get("rel", "").split()) <= NOT_LOADED:
            return
        for name in LOADING.get(tag, ()):
            if ELSEWHERE.search(values.get(name, "")):
                self.found.append(f"<{tag} {name}={values[name]}>")
        if STYLE_ELSEWHERE.search(values.get("style", "")):
            self.found.append(f"<{tag} style={values['style']}>")
        if "mermaid" in values.get("class", "").split():
            self.found.append(f"<{tag} class=mermaid>: the theme fetches a script for diagrams")


def loads_from_elsewhere(site: Path) -> list[str]:
    """Everything in a built site that a browser would load from another server, with the file that asks for it."""
    found = []
    for path in sorted(site.rglob("*.html")):
        page, text = _Loads(), path.read_text(encoding="utf-8")
        page.feed(text)
        styles = re.findall(r"<style[^>]*>(.*?)</style>", text, re.DOTALL)
        found += [f"{path.relative_to(site)}: {load}" for load in page.found]
        found += [f"{path.relative_to(site)}: {hit}" for style in styles for hit in STYLE_ELSEWHERE.findall(style)]
    for path in sorted(site.rglob("*.css")):
        found += [
            f"{path.relative_to(site)}: {hit}" for hit in STYLE_ELSEWHERE.findall(path.read_text(encoding="utf-8"))
        ]
    return found
