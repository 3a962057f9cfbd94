"""A function's signature and docstring are its command line: positional arguments, options, flags, help, errors."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal, get_args

import pytest

from vit.__main__ import COMMANDS
from vit.commands.cli.arguments import Paths, PositiveInt, StrPath
from vit.commands.cli.command_line import Metavar, command_parser, for_python, run_command
from vit.errors import UsageError
from vit.registry import command_module

calls = []


def paint(
    model: Annotated[StrPath, Metavar("RUN|CKPT")],
    images: Paths,
    *,
    color: Literal["red", "blue"] = "red",
    top_k: PositiveInt | None = None,
    deep: bool = False,
    careful: bool = True,
    output: StrPath | None = None,
) -> str:
    """Paint images.

    Args:
        model: a run, 100 % of it
        images: files,
            folders
        color: 50 % of the paint
        top_k: how many
        deep: below the surface
        careful: with care
        output: null: none

    Returns:
        Something that is not in the help.

    Example:
        vit paint runs/1 a.png
            --deep
    """
    calls.append((model, images, color, top_k, deep, careful, output))
    return "painted"


def label(text: str | None = None, images: Paths = ()) -> None:
    """Label.

    Args:
        text: a text
        images: files

    Example:
        vit label
    """
    calls.append((text, images))


def called(function, line):
    calls.clear()
    run_command(function, line.split())
    return calls.pop()


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("m a b", ("m", ["a", "b"], "red", None, False, True, None)),
        ("7 8 --color blue --top_k 3", ("7", ["8"], "blue", 3, False, True, None)),
        ("--deep m a", ("m", ["a"], "red", None, True, True, None)),
        ("--deep true m a", ("m", ["a"], "red", None, True, True, None)),
        ("m a --deep=false --careful false", ("m", ["a"], "red", None, False, False, None)),
        ("m a --output 5 --top_k null", ("m", ["a"], "red", None, False, True, "5")),
        ("--careful true m -- --deep -rf.png", ("m", ["--deep", "-rf.png"], "red", None, False, True, None)),
    ],
)
def test_words_become_values(line, values):
    assert called(paint, line) == values


def test_an_option_that_is_required_is_named_as_it_is_written():
    from vit.commands.exporting.soup import soup

    with pytest.raises(UsageError, match="arguments are required: --output; "):
        run_command(soup, ["a", "b"])


def test_numbers_are_plain():
    assert type(called(paint, "m a --top_k 3")[3]) is int, "else a checkpoint would hold the parser's type"


@pytest.mark.parametrize(("line", "values"), [("", (None, [])), ("t", ("t", [])), ("t a b", ("t", ["a", "b"]))])
def test_positional_arguments_with_defaults_may_be_left_out(line, values):
    assert called(label, line) == values


def test_help_has_the_docstring_and_the_types(capsys):
    with pytest.raises(SystemExit):
        run_command(paint, ["--help"])
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "usage: vit paint RUN|CKPT IMAGES ... [options] Paint images.", "RUN|CKPT a run, 100 % of it",
        "IMAGES files, folders", "--color red|blue 50 % of the paint [red]", "--top_k N how many", "--deep below the",
        "--careful true|false with care [true]", "--output VALUE null: none",
    ):  # fmt: skip
        assert words in out
    assert out.endswith("example: vit paint runs/1 a.png --deep") and "Something" not in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("m", "arguments are required: images"),
        ("m a --colour red", "vit paint has no option --colour; did you mean '--color'?"),
        ("m a --color blu", "color is blu; did you mean 'blue'?"),
        ("m a --top_k 0", "top_k is 0; give a number >0"),
        ("m a --top_k x", "top_k is x; give a whole number"),
        ("m a --deep=perhaps", "deep is perhaps; give true or false"),
        ("m a --careful maybe", "careful is maybe; give true or false"),
        ("m a --top_k.x 2", "top_k has no options of its own; give its value: --top_k VALUE"),
        ("m a --model.x 2", "vit paint has no option --model.x; "),  # not another value of the model
        ("m a --images.color=b", "vit paint has no option --images.color; did you mean '--color'?"),
        ("m a --deep maybe b", "deep is maybe; give true or false"),
        ("m a --color red b", "cannot use the word 'b'"),
        ("m a --color", "--color needs a value"),
    ],
)
def test_wrong_words_are_told(line, words):
    with pytest.raises(UsageError, match=words.replace("?", r"\?")):
        run_command(paint, line.split())


def test_actions_of_one_name(capsys):
    actions = {"paint": paint, "label": label}
    run_command(actions, ["label", "t"], "do")
    assert calls.pop() == ("t", [])
    wrong = {"": "vit do needs an action", "lable": "no action 'lable'; did you mean 'label'", "-x": "no action '-x'"}
    for words, problem in ((line.split(), problem) for line, problem in wrong.items()):
        with pytest.raises(UsageError, match=f"{problem}.*as in 'vit paint runs/1 a.png --deep'"):
            run_command(actions, words, "do")
    with pytest.raises(SystemExit):
        run_command(actions, ["-h"], "do")
    said = capsys.readouterr().out
    assert "vit do paint:\n  Paint images." in said and "vit do label:\n  Label." in said


def test_python_values_are_checked_in_the_same_words():
    function = for_python(paint, is_checked=True)
    assert function(Path("m"), [Path("a"), "b"], top_k=2) == "painted" and calls.pop()[:2] == ("m", ["a", "b"])
    assert function("m", images=(Path(name) for name in "ab")) == "painted" and calls.pop()[1] == ["a", "b"]
    for wrong, words in (
        ({"top_k": 0}, "top_k is 0; give a number >0"), ({"color": "blu"}, "did you mean 'blue'"),
        ({"colour": "red"}, "no option colour; did you mean 'color'"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            function("m", "a", **wrong)
    assert not calls and function.__doc__ == paint.__doc__
    assert [*inspect.signature(function).parameters] == [*inspect.signature(paint).parameters, "quiet"]


def functions():
    """(name, function) of each command but those which have the options of a recipe."""
    for name in sorted(set(COMMANDS) - {"train", "pretrain", "study", "crossval"}):
        command = getattr(command_module(name), name)
        yield from (
            [(f"{name} {action}", one) for action, one in command.items()]
            if isinstance(command, Mapping)
            else [(name, command)]
        )


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_the_signature_is_the_command_line(name, function):
    parser = command_parser(function, name)
    parameters = dict(inspect.signature(function).parameters)
    shared = [parameters.pop(name) for name, one in list(parameters.items()) if one.kind is one.VAR_KEYWORD]
    parameters |= dict.fromkeys([item.name for one in shared for item in fields(get_args(one.annotation)[1])])
    assert list(parser.by_name) == list(parameters)
    for option in parser.options:
        parameter = parameters[option.name]
        is_option = parameter is None or parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert option.is_positional is not is_option
        assert option.about and (not option.about.endswith(".") or option.about.endswith("...")), option.name
    assert f"{parser.example} ".startswith(f"vit {name} ")
    documented = inspect.getdoc(function)
    returned = inspect.signature(function).return_annotation
    assert ("Returns:" in documented) == (returned is not None), name
