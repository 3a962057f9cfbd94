"""Recipe and study files: by path, or by name where the program ships them; a repeated key is an error"""

from pathlib import Path

from vit.errors import UsageError, first_line, nearest
from vit.plain_files import DamagedFileError, parse_yaml, read_text


def find_config(name: str) -> Path:
    """The file of --config: a path, or the name of a recipe that comes with the program.

    Raises:
        UsageError: neither exists, or the file is not a text in UTF-8, or a key stands twice.
    """
    given = Path(name).expanduser()
    if given.is_file():
        _check_text(given)
        return given
    shipped = shipped_configs()
    if name in shipped:
        return shipped[name]
    raise UsageError(f"there is no config {name!r}", nearest(name, shipped))


def _check_text(path: Path) -> None:
    """Raise UsageError where a key stands twice, which YAML parsers take silently, and where there is no text."""
    import yaml

    try:
        text = read_text(path)
        waiting = [yaml.compose(text, Loader=yaml.SafeLoader)]
        parse_yaml(text)  # jsonargparse writes each alias out
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a text in UTF-8", "save it as UTF-8") from error
    except yaml.YAMLError:
        return  # the parser says it, with the line
    except (OSError, RecursionError, DamagedFileError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}", "fix it, or give another file") from error
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
                    first = lines[str(key.value)]
                    raise UsageError(
                        f"{path} has {key.value!r} in line {first} and again in line {line}", "keep one of the two"
                    )
                waiting.append(value)


def shipped_configs() -> dict[str, Path]:
    """Recipes, networks and studies by name; inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    folders = (package / "configs", package.parent / "configs")
    return {
        str(path.relative_to(folder).with_suffix("")): path for folder in folders for path in folder.rglob("*.yaml")
    }
