"""`vit convert SOURCE --output FILE`: weights of other libraries as a checkpoint"""

import os
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from vit.checkpoints.model_path import check_weights
from vit.commands.cli.arguments import PositiveInt, StrPath, new_file
from vit.commands.cli.command_line import Metavar
from vit.commands.exporting.model_card import write_converted_card
from vit.console import Reporter, count_of
from vit.errors import CheckpointError, DataError, explained, some_of
from vit.models.catalog import check_network
from vit.ranges import ImageSide

if TYPE_CHECKING:
    from vit.weights.pretrained import PretrainedWeights

Activation = Literal["gelu", "gelu_tanh", "quick_gelu"]
Three = tuple[float, float, float]
_MAX_CLASSES_FILE = 16 << 20  # bytes
_TRAIN = "train one on your images: vit train DATA --init_from "


def convert(
    source: StrPath,
    *,
    output: StrPath,
    network: str | None = None,
    weights: Literal["ema", "raw"] | None = None,
    image_size: ImageSide | None = None,
    patch_size: PositiveInt | None = None,
    num_heads: PositiveInt | None = None,
    prefix_positions: bool | None = None,
    activation: Activation | None = None,
    mean: Three | None = None,
    std: Three | None = None,
    crop_fraction: float | None = None,
    interpolation: Literal["bilinear", "bicubic"] | None = None,
    class_names: StrPath | None = None,
    card: Annotated[StrPath | None, Metavar("FILE")] = None,
) -> Path:
    """Turn pretrained weights into a checkpoint, with preprocessing and class names.

    SOURCE is a file or a folder, or timm:NAME, torchvision:NAME, hf:ORG/NAME[@REVISION]. ViTs are known by the names of
    their tensors (timm, torchvision, Hugging Face, JAX .npz, DINO, MAE, CLIP, SigLIP, OpenCLIP). Every other network of
    timm, a CNN too, is known by what the file states, by the name of the file, or by --network. A WARNING names what
    nothing states, and the options that replace these guesses.

    Args:
        source: a file, a folder, timm:, torchvision: or hf:
        output: the checkpoint to write
        network: name of the network, as timm has it; null: as the file or its name states
        weights: ema: the average over the training; raw: the last weights; null: the average, where a file has both
        image_size: pixels; null: the image size of the weights; another size resamples the position embeddings, or for
            much smaller images of a classifier keeps the middle ones
        patch_size: pixels; null: the patch size of the weights; another size resamples the patch embedding
        num_heads: null: as the source states, else the usual number for the width, or an error where published
            networks differ
        prefix_positions: whether class token and registers have positions; null: as their number shows
        activation: activation of the MLPs; null: as the source states (bare files of CLIP and SigLIP do not)
        mean: mean of red, green and blue, from 0 to 1; null: as the source states, else as is usual for its format
        std: standard deviation, as mean
        crop_fraction: side of the middle square that is kept, as a fraction of the resized side; null: as mean
        interpolation: interpolation of the resize; null: as mean
        class_names: a text file with one class name in each line; null: names from the source, ImageNet's for 1,000
            outputs; names that the source has twice get the number of their class
        card: new file for the model card, in the format of the Hugging Face hub; null: none

    Returns:
        The checkpoint.

    Example:
        vit convert deit_tiny_patch16_224.safetensors --output deit_tiny.ckpt
    """
    source, path = os.fspath(source), new_file(output)
    card_file = None if card is None else new_file(card, "--card")
    check_weights(source)

    from vit.weights.open import open_pretrained

    if network is not None:
        check_network(network)
    pretrained = open_pretrained(source, network, weights)
    options: dict[str, int | str | bool] = _given(
        num_heads=num_heads, activation=activation, patch_size=patch_size, prefix_positions=prefix_positions
    )
    if pretrained.num_classes < 2 and pretrained.multilabel is None:
        raise _no_classifier(pretrained, options)
    if replaced := _given(mean=mean, std=std, crop_fraction=crop_fraction, interpolation=interpolation):
        pretrained = pretrained.with_preprocess(replaced)
    source_names, whose = _class_names(pretrained, class_names)
    names = source_names  # all different: the two classes "crane" of ImageNet become "crane (134)" and "crane (517)"
    while same := {name for name, count in Counter(names).items() if count > 1}:  # a new name may be taken, too
        names = tuple(f"{name} ({number})" if name in same else name for number, name in enumerate(names))
    facts = _write(pretrained, path, names, image_size, options, bool(replaced))
    of_classes = [("classes", f"{len(names):,}: {some_of(names, 3)} ({whose})")]
    if repeated := [name for name, before in zip(names, source_names, strict=True) if name != before]:
        got = f"{count_of(len(repeated), 'class', 'classes')} got the number into the name: {some_of(repeated, 10)}"
        of_classes.append(("repeated names", got))
    reporter, more = Reporter(), " --unfinished" * bool(pretrained.unfinished)
    for name, stated in pretrained.contradicted(options).items():
        reporter.warn(f"--{name} {options[name]} takes the place of {stated}, which {source} states")
    reporter.line(f"Converted {source}")
    reporter.facts([*pretrained.facts(), *of_classes, *facts])
    if guesses := pretrained.guesses(_given(class_names=class_names, image_size=image_size).keys(), options):
        guessed = f"nothing settles these values, so they are guesses: {guesses}"
        of_pool = ", and for the pool give a folder with timm's config.json and its global_pool" * ("pool " in guesses)
        fix = f"where one is wrong, the option of its name, such as --mean, replaces it{of_pool}"
        reporter.warn(f"{guessed}; {fix}")
    if pretrained.outside:
        others = f"{source} has other weights beside this network: {some_of(pretrained.outside, 5)}"
        reporter.warn(f"{others}; if it ends in one of them, its classifier is not the one that was taken")
    if card_file is not None:
        from vit.checkpoints.load import load
        from vit.inference.deployment import LoadedModel

        write_converted_card(LoadedModel(*load(path)), source, path, card_file)
        reporter.line(f"model card: {card_file}")
    reporter.next_command(f"vit predict {shlex.quote(str(path))} FOLDER_OF_IMAGES --gallery{more}")
    return path


def _no_classifier(pretrained: "PretrainedWeights", options: Mapping[str, int | str | bool]) -> CheckpointError:
    """The error of weights without a classifier. It names layers that may be one, if the others are a whole network."""
    from vit.weights.formats.weight_format import PREDICTS_NUMBERS, READS_PRE_LOGITS

    reasons = [why for why in (READS_PRE_LOGITS, PREDICTS_NUMBERS) if why in pretrained.dropped.values()]
    reasons += ["it has one output, of which a softmax makes 1 for all images"] * pretrained.num_classes
    lack = "has no classifier" + "".join(f" that can be used: {why}" for why in reasons[:1])
    problem = f"{pretrained.source} {lack} ({pretrained.format} names), so there is nothing to predict with"
    fix, weights = _TRAIN + shlex.quote(pretrained.source), pretrained.weights
    matrices = [name for name, value in weights.items() if value.ndim == 2 and pretrained.network is None]
    beside = pretrained.outside + [name for name in matrices if not name.startswith(("blocks.", "attn_pool."))]
    if beside and not reasons:
        layers = tuple(name.removesuffix("weight") for name in beside)
        rest = {name: value for name, value in weights.items() if not name.startswith(layers)}
        replace(pretrained, weights=rest).build(1, given=options)
        problem += f"; its classifier may be {some_of(beside, 3)}"
        fix = f"if it ends in one linear layer, call that head, below the prefix of the other names; else {fix}"
    return CheckpointError(problem, fix)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _class_names(pretrained: "PretrainedWeights", file: StrPath | None) -> tuple[tuple[str, ...], str]:
    """(class names, their origin)."""
    from vit.weights.pretrained import imagenet_classes

    if file is not None:
        return _listed_names(Path(file).expanduser(), pretrained.num_classes), Path(file).name
    if pretrained.class_names is not None:
        is_imagenet = pretrained.class_names == imagenet_classes(pretrained.num_classes)
        assumed = "ImageNet's, assumed" if "class_names" in pretrained.guessed else "ImageNet's"
        return pretrained.class_names, assumed if is_imagenet else "the source's"
    return tuple(f"class {number}" for number in range(pretrained.num_classes)), "numbers: no fitting names are known"


def _listed_names(path: Path, num_classes: int) -> tuple[str, ...]:
    if not path.is_file() or path.stat().st_size > _MAX_CLASSES_FILE:
        raise DataError(f"there is no list of classes {path}", "give a text file with one name in each line")
    with explained(DataError, f"the list of classes {path} is not UTF-8", "save it as UTF-8", UnicodeDecodeError):
        text = path.read_text(encoding="utf-8-sig")
    names = tuple(line.strip() for line in text.removesuffix("\n").split("\n"))
    if len(names) != num_classes or not all(names):
        problem = f"{path} has {count_of(len(names), 'name')} for {num_classes:,} classes"
        raise DataError(problem, "give one name in each line")
    for name in (name for name, count in Counter(names).items() if count > 1):
        lines = " and ".join(f"in line {number}" for number, one in enumerate(names, 1) if one == name)
        raise DataError(f"{path} has the class name {name!r} {lines}", "give each class a name of its own")
    return names


def _write(
    pretrained: "PretrainedWeights",
    output: Path,
    class_names: tuple[str, ...],
    image_size: int | None,
    options: Mapping[str, int | str | bool],
    has_own_pixels: bool,
) -> list[tuple[str, str]]:
    """Build the network, fill it, write it, and read it back; returns what became of the tensors."""
    from vit.checkpoints.format import Description, checkpoint_content
    from vit.checkpoints.label_rules import LabelRules, range_text
    from vit.checkpoints.load import write_new_checkpoint
    from vit.checkpoints.result import versions
    from vit.weights.adapt import head_names
    from vit.weights.hubs import UNKNOWN

    filled = pretrained.build(len(class_names), image_size, options)
    heads, tensors = head_names(filled.network), filled.network.state_dict().items()
    if heads and not any(bool(value.any()) for name, value in tensors if name in heads and value.ndim > 1):
        problem = f"{pretrained.source}: the weights of its classifier are 0, so that all images get one answer"
        raise CheckpointError(problem, _TRAIN + shlex.quote(pretrained.source))
    if filled.report.initialized:
        problem = f"{pretrained.source}: its classifier does not fit: {filled.report.initialized}"
        raise CheckpointError(problem, "give other weights")
    is_same = not (options or has_own_pixels) and image_size in (None, pretrained.own_network(options).image_size)
    rules = pretrained.multilabel if is_same or pretrained.multilabel is None else LabelRules.unfitted(len(class_names))
    license_name = None if pretrained.license == UNKNOWN else pretrained.license
    description = Description(
        class_names, filled.spec, filled.preprocess, versions=versions(), multilabel=rules, license=license_name,
        unfinished=pretrained.unfinished or None, made_of=pretrained.made_of,
    )  # fmt: skip
    if is_same:
        scores = pretrained.validation_scores
        if scores is not None and class_names != pretrained.class_names:
            scores = replace(scores, levels=())  # of groups by the names before
        description = replace(description, temperature=pretrained.temperature, validation_scores=scores)
    write_new_checkpoint(checkpoint_content(description, filled.network.state_dict()), output)
    parameters = sum(parameter.numel() for parameter in filled.network.parameters())
    facts = [("network", f"{filled.spec.name}, {parameters:,} parameters, {filled.preprocess.image_size} pixels")]
    if rules is not None:
        facts.append(("labels", f"several for an image, with thresholds of {range_text(rules.thresholds)}"))
    why, temperature = "fitted without the options that you give", pretrained.temperature
    if rules is not None and not is_same:
        lost = "temperatures and thresholds of the source are not kept"
        facts.append(("calibration", f"{lost}: they were {why}; temperatures are 1, and thresholds 0.5"))
    elif temperature != 1:
        lost = f"{temperature:.3f} is not kept: it was {why}"
        facts.append(("temperature", f"{temperature:.3f}, as in the source" if is_same else lost))
    return [*facts, *filled.report.facts(), ("checkpoint", str(output))]
