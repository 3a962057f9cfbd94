"""`vit COMMAND ...`: runs a command, and turns every failure into one line and an exit code"""

import errno
import os
import re
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from vit import own_code
from vit.errors import TOO_MANY_FILES, Terminated, UsageError, VitError, interruption, is_out_of_memory, nearest
from vit.launch import adopt_srun, wait_briefly
from vit.memory import collect_seldom, keep_freed_memory
from vit.registry import COMPLETION, command_module
from vit.version import __version__

COMMANDS = {
    "train": "train a ViT or a CNN on a folder of images, a CSV, digits, or a torchvision data set",
    "pretrain": "learn from images without labels, and leave a backbone for 'vit train --init_from'",
    "crossval": "train and test every image once: accuracy over all images, with predictions that find wrong labels",
    "study": "compare networks over growing training sets, with intervals; a stopped study resumes",
    "probe": "compare pretrained networks on your images by linear probes, with intervals",
    "report": "write the report of a study or a run again, from its files",
    "runs": "list all runs of a folder with their accuracies; a page to sort and to filter",
    "compare": "compare finished runs on the same test images, and list disagreements",
    "evaluate": "measure a trained model on labeled images",
    "predict": "label images: one row for each file",
    "embed": "write a vector for each image to a Parquet file",
    "similar": "find the most similar images of a file of embeddings",
    "serve": "answer requests over HTTP with the rows of 'vit predict'",
    "demo": "serve a page on this machine to drop images on",
    "convert": "turn pretrained weights of other libraries into a checkpoint",
    "soup": "average the weights of runs that start from the same weights, where that helps",
    "export": "write a trained model as ONNX, OpenVINO, torch.export, safetensors, or for timm and transformers",
    "push": "upload a trained model with its card to the Hugging Face hub",
    "explain": "show which parts of an image speak for its class, and test the maps",
    "inspect": "show what a ViT has learned and what it costs: filters, positions, attention, FLOPs",
    "data": "check images and labels, choose images to label next, pack or index shards",
    "models": "list networks with parameters and FLOPs",
    "env": "print versions, device and extras, for the report of a fault",
}
COMPUTE = (
    "train", "pretrain", "crossval", "study", "probe", "compare", "evaluate", "predict", "embed", "serve", "demo",
    "explain", "soup",
)  # fmt: skip
READ_RECIPES = ("train", "pretrain", "crossval", "study")  # options also come from files: the modules read the words
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENOENT, errno.ENOTDIR, errno.ESTALE}
_MISSING_RESOURCES = _DISK | {errno.EACCES, errno.EPERM, errno.ENOMEM}
_UNUSABLE_PATHS = {errno.ENAMETOOLONG, errno.ELOOP}
_LOST_WORKER = re.compile(
    r"DataLoader worker .*(killed by signal|exited unexpectedly)|shared memory\(shm\)|Pin memory thread exited"
    r"|DataLoader worker process.*No space left on device",
    re.DOTALL,
)
_LOST_WORKER_WORDS = (
    "a process that reads images was killed, or found no room: the machine is out of memory, /dev/shm is small "
    "(docker run --shm-size), or the folder for temporary files is full (TMPDIR); give --data.num_workers 0, or a "
    "smaller --batch_size"
)
_NO_DESCRIPTORS = re.compile(rf"Too many open files|exited unexpectedly with exit code {errno.EMFILE}\b")
_SHOWN = 200  # characters of a path that is too long
HELP = """usage: vit COMMAND ... [--debug]
       vit --print_completion bash|zsh|fish

Vision Transformers for image classification.

{commands}

'vit COMMAND --help' shows a command's options. Example: vit train digits

Exit codes: 0 done; 1 internal error; 2 wrong usage; 3 unusable data; 4 unusable checkpoint; 5 some inputs failed;
6 training diverged; 7 disk, memory or permission; 8 a process of several failed; 130 interrupted; 138 ended by SIGUSR1;
143 terminated; 129 terminal closed; 152 out of CPU time."""


def main(argv: list[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.platform == "win32":
        print("vit: vit runs on Linux and macOS; Windows is not tested: use WSL 2 if anything fails", file=sys.stderr)
    debug = "--debug" in arguments or bool(os.environ.get("VIT_DEBUG"))
    arguments = [argument for argument in arguments if argument != "--debug"]
    wait_briefly()
    collect_seldom()
    adopt_srun()
    _open_closed_outputs()
    if argv is None and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()  # a closed pipe shows here, not at exit
        return code
    except BrokenPipeError:  # `vit ... | head` has closed the pipe
        _discard(sys.stdout)
        return 128 + 13  # as a program that SIGPIPE ends; Windows has no such signal
    except KeyboardInterrupt as stop:
        return _report(*interruption(stop))
    except Exception as error:
        if debug:
            raise
        return _report(*_failure(error))
    finally:
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, _terminate)):
            if argv is None and signal.getsignal(number) is handler:  # not one that ignores it
                signal.signal(number, signal.SIG_DFL)  # the program ends: another Ctrl-C shows no traceback


def _terminate(*_: object) -> None:
    """End a command at SIGTERM as Ctrl-C does, so that it removes what it began; a training has its own handler."""
    raise Terminated


def _open_closed_outputs() -> None:
    """Let the outputs that a daemon has closed go nowhere: the next file would otherwise get their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  stays open
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        with suppress(OSError):  # of a fork, where a pipe has taken the place of a file
            sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: the locale may lack the letters of a name


def _dispatch(arguments: list[str]) -> int:
    """Run the command that the first word names; returns the exit code."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        width = max(map(len, COMMANDS))
        print(HELP.format(commands="\n".join(f"  {name:<{width}}  {about}" for name, about in COMMANDS.items())))
        return 0
    if arguments[0] == "--version":
        print(__version__)
        return 0
    name, *rest = arguments
    if name.partition("=")[0] == "--print_completion":
        print(COMPLETION.load()(name.partition("=")[2] or "".join(rest[:1]), COMMANDS), end="")
        return 0
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}", nearest(name, COMMANDS))
    if name in COMPUTE:
        keep_freed_memory()
    try:
        module = command_module(name)
        if name in READ_RECIPES:
            return int(module.main(rest))
        from vit.commands.cli.command_line import run_command

        run_command(getattr(module, name), rest, name)
    except SystemExit as end:  # the parser ends so after --help and --print_config
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _failure(error: Exception) -> tuple[int, str]:
    """(exit code, what happened and the fix)."""
    first_line = (str(error).splitlines() or [""])[0]
    if isinstance(error, VitError):
        return error.code, f"{error.problem}; {error.fix}"
    if is_out_of_memory(error):
        words = f"out of memory: {first_line}".rstrip(": ")
        return 7, f"{words}; give a smaller --batch_size, or close other programs"
    if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) or _NO_DESCRIPTORS.search(str(error)):
        return 7, "; ".join(TOO_MANY_FILES)
    if _LOST_WORKER.search(str(error)):
        return 7, _LOST_WORKER_WORDS
    if isinstance(error, OSError) and error.errno in _MISSING_RESOURCES | _UNUSABLE_PATHS:
        where = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        if error.errno in _UNUSABLE_PATHS:
            return 2, f"{os.strerror(error.errno)}{where[:_SHOWN]}; give another path"
        return 7, f"{os.strerror(error.errno)}{where}; free space, fix permissions, or choose another place"
    if isinstance(error, RuntimeError) and str(error).startswith("Could not determine home"):
        return 2, "a path begins with ~, and no home folder is known for it; give the whole path"
    if words := own_code.failure(error):
        return 2, f"{words}; change this code, or run it again with --debug for all lines"
    return 1, f"internal error: {type(error).__name__}: {first_line}; run it again with --debug and report its output"


def _report(code: int, text: str) -> int:
    from vit.console import harmless

    try:
        print(f"vit: error[{code}]: {harmless(text)}", file=sys.stderr)
    except OSError:  # a log on a full disk, or a closed pipe: the code still tells
        _discard(sys.stderr)
    return code


def _discard(output: TextIO) -> None:
    """Let what an output still holds go nowhere: Python would otherwise complain at exit, with a code of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


if __name__ == "__main__":
    sys.exit(main())
