"""The page of `vit demo`: an image becomes classes and their map. It says what its model is, and has example images"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import yaml
from PIL import Image
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from vit.checkpoints.load import read_described
from vit.checkpoints.run import RunDirectory, checkpoint_of, unfinished_text
from vit.commands.cli.arguments import trusted_hosts
from vit.commands.cli.recipe_options import read_recipe
from vit.commands.exporting.model_card import origin_of
from vit.console import Reporter, count_of, harmless, interval, percent
from vit.data.checks.contents import current_hash
from vit.data.core.image_bytes import MAX_BYTES, ImageError
from vit.data.core.samples import Samples
from vit.data.splits.split import SplitRow
from vit.errors import ResourceError, VitError, explained
from vit.explain.explainer import Explainer
from vit.export.card import Origin
from vit.inference.engines.exported_engines import ExportedEngine
from vit.inference.predictor import Predictor
from vit.report.page.image_figures import overlay
from vit.training.running.run_images import images_of_run, splits_of_run

FONTS = ("system-ui", "sans-serif"), ("ui-monospace", "monospace")  # gradio's own fonts come from Google
NUM_EXAMPLES = 8
_DAMAGED = (VitError, OSError, ValueError, KeyError, TypeError, yaml.YAMLError)  # files: the page goes on without them
_ACCURACIES = {"acc1": "accuracy", "exact_match": "exact match"}
_VALIDATED = {"acc1": "accuracy", "map": "mAP"}  # the exact match of a validation is not at the thresholds of the model


class Page(NamedTuple):
    """What a page shows."""

    predictor: Predictor  # the model
    top_k: int  # number of classes
    title: str  # network and data
    lines: Sequence[str]  # what else is said of the model
    examples: Sequence[str] = ()  # files to choose from


def launch(content: Page, host: str, port: int | None, uploads: Path) -> tuple[Any, str]:
    """Start to serve in a separate thread: the page of gradio, and its address. ResourceError: the port is taken."""
    os.environ.update(
        GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1", GRADIO_TEMP_DIR=os.fspath(uploads)
    )
    import gradio

    page = build(content)
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=trusted_hosts(host), www_redirect=False)
    with explained(ResourceError, f"cannot serve on {host}, port {port or '7860 and up'}", "give --port"):
        _, address, _ = page.launch(
            server_name=host,
            server_port=port,
            prevent_thread_lock=True,
            share=False,
            quiet=True,
            ssr_mode=False,
            footer_links=[],
            max_file_size=MAX_BYTES,
            theme=gradio.themes.Default(font=FONTS[0], font_mono=FONTS[1]),
            app_kwargs={"middleware": [guard]},
        )
    return page, address


def build(content: Page) -> Any:
    """The page of gradio: a heading, and an interface from the file of an image to its classes and their map."""
    import gradio

    predictor, task = content.predictor, content.predictor.task

    def predict(path: str | None) -> tuple[Any, ...]:
        if path is None:
            return None, None, ""
        (row,) = predictor.predict_files([path], content.top_k)
        return dict(row.top) or None, *(look_at(predictor, path) if row.status == "ok" else (None, harmless(row.error)))

    heading = f"<h1>{escape(harmless(content.title))}</h1>"
    heading += "".join(f"<p>{escape(harmless(line))}</p>" for line in content.lines)
    dropped = gradio.Image(
        label="Drop an image here", type="filepath", image_mode=None, sources=["upload"], buttons=[]
    )  # with a mode of colors, gradio would hand over a copy
    dropped.preprocess = lambda file: file and file.path  # gradio itself reads fewer formats
    with gradio.Blocks(title=f"vit demo: {harmless(content.title)}", analytics_enabled=False) as page:
        gradio.HTML(heading)
        gradio.Interface(
            predict,
            dropped,
            [
                gradio.Label(
                    label=task.kinds.capitalize(),
                    num_top_classes=content.top_k if task.is_exclusive else None,  # an image may have more labels
                    show_heading=task.is_exclusive,
                ),
                gradio.Image(label="Map", interactive=False, buttons=["fullscreen"]),  # the rest may send it elsewhere
                gradio.Textbox(show_label=False, container=False, interactive=False),
            ],
            [[path] for path in content.examples] or None,
            preload_example=False,
            cache_examples=False,
            live=True,
            flagging_mode="never",
            api_name="predict",
            analytics_enabled=False,
        )
    return page


def look_at(predictor: Predictor, path: str) -> tuple[npt.NDArray[np.uint8] | None, str]:
    """(the image (H, W, 3) under the map of its label, a sentence on the map); (None, the reason) without a map."""
    try:
        explanation = Explainer(predictor, "best", with_faithfulness=False).explain(path)
    except (ImageError, VitError) as error:
        return None, f"No map: {error}"
    ((method, importance),) = explanation.maps.items()
    text = f"Yellow spoke for {harmless(explanation.explained)} ({method}); each map has a scale of its own."
    return overlay(explanation.image, importance).permute(1, 2, 0).numpy(), text


def heading_of(model: Path, predictor: Predictor) -> tuple[str, list[str]]:
    """(network and data, lines of size, accuracy and file) of a run, checkpoint or exported file."""
    engine = predictor.engine
    description = engine.description if isinstance(engine, ExportedEngine) else read_described(checkpoint_of(model))[0]
    title, size = description.spec.name, description.preprocess.image_size
    facts = f"{len(predictor.class_names):,} {predictor.task.kinds}, images of {size} x {size} pixels"
    if predictor.lacks:
        facts += f"; {unfinished_text(predictor.lacks)}"
    try:
        origin = origin_of(model)
    except _DAMAGED:
        origin = Origin()
    if origin.data is not None:
        title += f", trained on {origin.data}"
    if "train" in origin.num_images:
        facts += f", {count_of(origin.num_images['train'], 'training image')}"
    images = f", {count_of(origin.num_images['test'], 'image')}" if "test" in origin.num_images else ""
    accuracies = [
        f"Test {words} {interval(**origin.metrics[name])}{images}, 95 % interval"
        for name, words in _ACCURACIES.items()
        if name in origin.metrics
    ] + [
        f"Validation {words} {percent(description.metrics[f'val/{name}'])}, which is not a test"
        for name, words in _VALIDATED.items()
        if f"val/{name}" in description.metrics
    ]
    return title, [facts, *accuracies[:1], f"Model: {model.resolve().name}"]


def examples_of(model: Path, folder: Path, reporter: Reporter) -> list[str]:
    """Files of at most eight validation images of the run of a model, of different labels where there are some.

    Images that are not files are written to a temporary folder. There are none without a run folder. A notice says why
    there are none of a run.
    """
    run = RunDirectory.around(model)
    if run is None or not run.splits_path.is_file():
        return []
    try:
        source = images_of_run(run, read_recipe(run.config_path))
        samples, rows = source.splits["validation"], splits_of_run(run)["validation"]
        examples = list(islice(_unchanged_files(samples, rows, folder), NUM_EXAMPLES))
    except _DAMAGED as error:
        reporter.notice(f"the page has no examples: {error}")
        return []
    if not examples:
        reporter.notice("the page has no examples: no validation image of the run is where it was, with its content")
    return examples


def _unchanged_files(samples: Samples, rows: Sequence[SplitRow], folder: Path) -> Iterator[str]:
    """The files of images that have the content of the training. An image that is not a file is written."""
    for place in _mixed([row.label for row in rows]):
        path = folder / f"validation_{place}.png" if samples.root is None else samples.file(place)
        try:
            if current_hash(samples, place) != rows[place].content_hash:
                continue
        except ImageError:
            continue
        if samples.arrays is not None:
            Image.fromarray(samples.arrays[place]).save(path)
        elif samples.root is None:
            path.write_bytes(samples.encoded(place))
        yield os.fspath(path)


def _mixed(labels: Sequence[str]) -> list[int]:
    """Places of labels, such that the first ones are of different labels: the first of each, the second of each, ..."""
    seen, turns = Counter[str](), []
    for label in labels:
        turns.append(seen[label])
        seen[label] += 1
    return sorted(range(len(labels)), key=turns.__getitem__)
