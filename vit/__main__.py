"""`vit COMMAND ...`: finds the command, runs it, and turns every failure into one line and an exit code."""

import errno
import os
import re
import sys
from importlib import import_module

from vit.errors import UsageError, VitError, is_out_of_memory, nearest
from vit.launch import adopt_srun

COMMANDS = {
    "train": "train a ViT or a CNN on a folder of images, a CSV, digits, or a torchvision data set",
    "study": "compare networks over growing numbers of images, with intervals; goes on where it was",
    "report": "a study's findings or the page of a run again, from their files",
    "compare": "finished runs on the same test images: differences, and where they disagree",
    "evaluate": "measure a trained model on labeled images",
    "predict": "a row per image of any files or folders",
    "demo": "a page on this machine to drop images on",
    "convert": "turn pretrained weights of other libraries into a checkpoint",
    "export": "a trained model as ONNX, torch.export, safetensors, or for timm and transformers",
    "explain": "which parts of an image spoke for its class, and whether that is true",
    "inspect": "what a ViT learned and what it costs: filters, positions, attention distance, FLOPs",
    "data": "check a data set for broken, odd, duplicate and mislabeled images",
    "models": "list networks with parameters and FLOPs",
}
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_MISSING_RESOURCES = _DISK | {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_SIGPIPE = 128 + 13  # as a program that the signal ends; Windows has no such signal
_PLATFORM = "vit runs on Linux and macOS; Windows is not tested: use WSL 2 if anything fails"
_LOST_WORKER = re.compile(
    r"DataLoader worker \(pid.*(killed by signal|exited unexpectedly)|shared memory\(shm\)"
    r"|DataLoader worker process.*No space left on device",
    re.DOTALL,
)
HELP = """usage: vit COMMAND ... [--debug]

Vision Transformers for image classification.

{commands}

'vit COMMAND --help' shows a command's options. Example: vit train digits

Exit codes: 0 done; 1 internal error; 2 wrong usage; 3 unusable data; 4 unusable checkpoint; 5 some inputs failed;
6 training diverged; 7 disk, memory or permission; 8 a process of several failed; 130 interrupted; 138 ended by SIGUSR1;
143 terminated."""


def main(argv: list[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.platform == "win32":
        print(f"vit: {_PLATFORM}", file=sys.stderr)
    debug = "--debug" in arguments or bool(os.environ.get("VIT_DEBUG"))
    arguments = [argument for argument in arguments if argument != "--debug"]
    adopt_srun()
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()  # a reader that has gone shows here, not at exit
        return code
    except VitError as error:
        if debug:
            raise
        return _report(error.code, str(error))
    except KeyboardInterrupt:
        return _report(130, "interrupted")
    except BrokenPipeError:  # `vit ... | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would complain at exit
        return _SIGPIPE
    except Exception as error:
        if debug:
            raise
        kind = type(error).__name__
        if is_out_of_memory(error):
            words = f"out of memory: {_first_line(error)}".rstrip(": ")
            return _report(7, f"{words}; give a smaller --batch_size, or close other programs")
        if _LOST_WORKER.search(str(error)):
            return _report(
                7,
                "a process that reads images was killed, or found no room: the machine is out of memory, /dev/shm is "
                "small (docker run --shm-size), or the folder for temporary files is full (TMPDIR); give "
                "--data.num_workers 0, or a smaller --batch_size",
            )
        if isinstance(error, OSError) and error.errno in _MISSING_RESOURCES:
            where = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
            return _report(7, f"{error.strerror}{where}; free space, fix permissions, or choose another place")
        return _report(
            1, f"internal error: {kind}: {_first_line(error)}; run it again with --debug and report what it prints"
        )


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        width = max(map(len, COMMANDS))
        print(HELP.format(commands="\n".join(f"  {name:<{width}}  {about}" for name, about in COMMANDS.items())))
        return 0
    if arguments[0] == "--version":
        from vit import __version__

        print(__version__)
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}", nearest(name, COMMANDS))
    module = import_module(f"vit.commands.{name}")
    try:
        if name in ("train", "study"):  # their options are a recipe's, from files and words
            return int(module.main(rest))
        from vit.commands.command_line import run_command

        run_command(getattr(module, name), rest, name)
        return 0
    except SystemExit as end:  # the parser ends so after --help and --print_config
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _report(code: int, text: str) -> int:
    from vit.console import harmless

    print(f"vit: error[{code}]: {harmless(text)}", file=sys.stderr)
    return code


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


if __name__ == "__main__":
    sys.exit(main())
