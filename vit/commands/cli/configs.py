"""Recipe and study files: by path, or by name where the program ships them; a repeated key is an error"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vit.commands.cli.command_line import Parser
from vit.errors import UsageError, first_line, nearest
from vit.plain_files import DamagedFileError, parse_yaml, read_text


def find_config(name: str) -> Path:
    """The file of --config: a path, or the name of a recipe that comes with the program; UsageError for neither."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    shipped = shipped_configs()
    if name in shipped:
        return shipped[name]
    raise UsageError(f"there is no config {name!r}", nearest(name, shipped))


def read_config(name: str, parser: Parser, of_command: Sequence[str] = ("config",)) -> tuple[Path, dict[str, Any]]:
    """The file of --config, and the values of its options; UsageError for anything else, and for a key twice.

    Options `of_command` are not for files, whatever their value.
    """
    path = find_config(name)
    try:
        text = read_text(path)
        tree = parse_yaml(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text in UTF-8", "save it as UTF-8") from error
    except (OSError, DamagedFileError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}", "fix it, or give another file") from error
    if not isinstance(tree, dict):
        raise UsageError(f"{path} holds no options", "give sections and options, as 'vit train --print_config' prints")
    _check_keys(path, text)
    for option in of_command:
        if option in tree:
            raise UsageError(f"{path} has {option!r}, which is not an option of a file", f"give --{option} instead")
    try:
        return path, parser.read_tree(tree)
    except UsageError as error:
        raise UsageError(f"{path}: {error.problem}", error.fix) from error


def _check_keys(path: Path, text: str) -> None:
    """Raise UsageError where a key stands twice, of which YAML parsers silently take the last."""
    import yaml

    waiting = [yaml.compose(text, Loader=yaml.SafeLoader)]
    seen = set()  # an anchor is met at each of its aliases
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if lines.setdefault(str(key.value), line) != line:
                    problem = f"{path} has {key.value!r} in line {lines[str(key.value)]} and again in line {line}"
                    raise UsageError(problem, "keep one of the two")
                waiting.append(value)


def shipped_configs() -> dict[str, Path]:
    """Recipes, networks and studies by name; inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[2]
    folders = (package / "configs", package.parent / "configs")
    return {
        str(path.relative_to(folder).with_suffix("")): path for folder in folders for path in folder.rglob("*.yaml")
    }
