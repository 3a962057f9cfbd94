"""`vit demo RUN|CKPT`: a page on this machine that labels and explains a dropped image"""

import os
import shlex
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

from vit.checkpoints.model_path import check_model
from vit.commands.cli.arguments import Model, Port, PositiveInt, warn_of_unfinished
from vit.console import Reporter, count_of
from vit.errors import UsageError, install

HERE = "127.0.0.1"


def demo(
    model: Model,
    *,
    host: str = HERE,
    port: Port | None = None,
    top_k: PositiveInt = 5,
    device: str = "auto",
    unfinished: bool = False,
) -> None:
    """Serve a page on this machine that labels a dropped image, until Ctrl-C.

    The page shows labels and probabilities as 'vit predict' gives them, and a map as 'vit explain --method best' draws
    it. Validation images of the run are examples, where they are still in their place. Nothing leaves the machine.

    Args:
        model: a run folder or a checkpoint
        host: 0.0.0.0: others on your network can use the page too; it then has no examples
        port: null: the first free port from 7860
        top_k: number of classes shown; of several labels, all labels of an image are shown
        device: cpu, cuda or mps; auto: an accelerator if there is one
        unfinished: whether a model whose training is not finished may be used, as it is

    Raises:
        VitError: the model cannot be used, gradio is not installed, or the port is taken.

    Example:
        vit demo runs/photos/vit_tiny_patch16_224/20260101-120000
    """
    model = os.fspath(model)
    check_model(model, unfinished)
    if find_spec("gradio") is None:
        raise UsageError("the page needs gradio", install("demo"))

    from vit.extras.demo.page import Page, examples_of, heading_of, launch
    from vit.inference.predictor import load

    predictor = load(model, device, unfinished=unfinished)
    reporter = Reporter()
    warn_of_unfinished(predictor.lacks, reporter)
    with tempfile.TemporaryDirectory(prefix="vit-demo-") as uploads:  # dropped images are removed at the end
        path = Path(model).expanduser()
        title, lines = heading_of(path, predictor)
        examples = examples_of(path, Path(uploads), reporter) if host == HERE else []  # others see no images
        page, address = launch(Page(predictor, top_k, title, lines, examples), host, port, Path(uploads))
        classes = count_of(len(predictor.class_names), "class", "classes")
        reporter.line(f"{classes}; open {address} in a browser; Ctrl-C ends the page")
        if host != HERE:
            reporter.warn("everyone who can reach this machine can use the page, because it has no password")
        reporter.next_command(f"vit predict {shlex.quote(model)} FOLDER_OF_IMAGES --gallery")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            page.close(verbose=False)
