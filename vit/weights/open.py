"""Weights to start from, opened by path or by name (timm:, torchvision:, hf:)"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import cast

from torch import Tensor

from vit.checkpoints.format import KEY, Description, read_description
from vit.checkpoints.io import file_hash
from vit.checkpoints.label_rules import unfitted_rules
from vit.checkpoints.load import expected_weights, read_described
from vit.checkpoints.model_path import check_local
from vit.checkpoints.run import check_finished, start_of
from vit.data.pixels.preprocess import COLORS
from vit.errors import CheckpointError, explained, first_line, some_of
from vit.models.catalog import CATALOG, Options, Value
from vit.weights.file import FOLDER_FILES, WeightsFile, is_ours, read_metadata, read_weights_file
from vit.weights.folder import StatedFacts, facts_of_file, from_torchvision, image_side, read_folder
from vit.weights.formats import rotary
from vit.weights.formats.detect import NetworkOfTimmError, convert_weights
from vit.weights.formats.weight_format import PREDICTS_NUMBERS, Converted, TimmModel, Weights, published_heads, without
from vit.weights.hubs import UNKNOWN, from_hugging_face, from_timm, license_of
from vit.weights.named_model import named_model, read_as_torchvision, usual_networks
from vit.weights.preprocess_config import Config, PreprocessValues, StatedPreprocess, from_timm_config
from vit.weights.pretrained import PREPROCESSING, OwnNetwork, PretrainedWeights, imagenet_classes
from vit.weights.trainer_file import State, check_state, describe_choice

_PREFIX = "model."  # of the tensors of a network of timm inside ours
_OTHER_NETWORK = "give the name of its own network: --network NAME ('vit models' lists all)"
_UNSHOWN = {"window": None, "channels": COLORS, "color_profiles": "convert"}  # usual values of a preprocessing


def open_pretrained(source: str, network: str | None = None, state: State | None = None) -> PretrainedWeights:
    """Weights of a path (a file, a folder, a run), of timm:NAME, torchvision:NAME or hf:ORG/NAME[@REVISION].

    `network` names that of a file, where neither the file nor its name tells. `state` chooses the average (EMA) or raw
    weights, where a training program's file has both; None: the average. CheckpointError: they cannot be read, or are
    of an unknown format. ResourceError: they cannot be fetched. UsageError: a library has no such model.
    """
    library, _, name = source.partition(":")
    if library == "timm":
        return _foreign(source, WeightsFile(from_timm(name)), StatedFacts(model=named_model(name), is_exact=True))
    if library == "torchvision":
        weights, facts = from_torchvision(name)
        return _foreign(source, WeightsFile(weights), facts)
    path = _path_of(source)
    folder = _folder_of(path)
    if folder == path:
        pretrained = _foreign(source, read_weights_file(path, state), read_folder(path), state)
        return _with_own_rules(pretrained, path / "model.safetensors")
    path = start_of(path)
    check_local(path)
    if path.suffix not in (".safetensors", ".npz") and path.is_file() and is_ours(path):
        description, weights = read_described(path)
        return _described(path, source, "vit", weights, description, "the checkpoint")
    if (exported := _description_in(path)) is not None:
        return _exported(source, path, exported)
    file = read_weights_file(path, state)
    return _foreign(source, file, read_folder(folder) if folder else facts_of_file(path, file, network), state)


def weights_hash(source: str) -> str:
    """A hash of the files that an `init_from` means; a library's own model has its name instead. Errors: as above."""
    if source.partition(":")[0] in ("timm", "torchvision"):
        return source
    path, digest = _path_of(source), hashlib.sha256()
    folder, beside = _folder_of(path), (".json", ".safetensors", ".bin")
    files = sorted(file for file in folder.iterdir() if file.suffix in beside) if folder else [start_of(path)]
    for file in files:
        with explained(CheckpointError, f"{file} cannot be read", "check --init_from"):
            digest.update(file_hash(file).encode())
    return digest.hexdigest()[:16]


def _path_of(source: str) -> Path:
    library, _, name = source.partition(":")
    return from_hugging_face(name) if library == "hf" else Path(source).expanduser()


def _folder_of(path: Path) -> Path | None:
    """The folder with weights of another library that a path is, or whose configs describe the weights at the path."""
    if path.is_dir():
        return path if any((path / file).is_file() for file in ("config.json", *FOLDER_FILES)) else None
    return path.parent if path.name in FOLDER_FILES and (path.parent / "config.json").is_file() else None


def _description_in(path: Path) -> Description | None:
    """The description that `vit export` wrote into a .safetensors file; None: it has none."""
    text = read_metadata(path).get(KEY) if path.suffix == ".safetensors" and path.is_file() else None
    if text is None:
        return None
    fix = "export it again"
    with explained(CheckpointError, f"{path} has a broken description", fix, (ValueError, RecursionError)):
        plain = json.loads(text)
    return read_description(plain, path, fix)


def _exported(source: str, path: Path, description: Description) -> PretrainedWeights:
    """A file of `vit export`: its description says everything but how tensors are held."""
    weights, options = read_weights_file(path).weights, description.spec.options
    if "rope2d" in str(options.get("pos_embed")):
        weights = rotary.own_names(weights)  # a file for timm has timm's names
    made = _described(path, source, "vit export", weights, description, "the file")
    if not description.class_names:
        return replace(made, format="vit pretrain")
    if description.spec.name not in CATALOG:  # a file for timm has timm's names
        is_ours = all(name.startswith(_PREFIX) for name in weights)
        return made if is_ours else replace(made, weights={_PREFIX + name: value for name, value in weights.items()})
    is_fixed = options.get("pos_embed") == "sincos2d" and "pos_embed" in weights  # fixed positions as a tensor
    held: Options = {"pos_embed": "learned"} if is_fixed else {}
    network = OwnNetwork(description.spec.name, description.preprocess.image_size, {**options, **held})
    return replace(made, network=network)


def _with_own_rules(pretrained: PretrainedWeights, path: Path) -> PretrainedWeights:
    """The weights of a folder with the thresholds and scores that `vit export` wrote into their file, if it did."""
    about = _description_in(path)
    if about is None or about.class_names != pretrained.class_names:
        return pretrained
    scores = about.validation_scores
    return replace(pretrained, multilabel=about.multilabel, temperature=about.temperature, validation_scores=scores)


def _described(
    path: Path, source: str, format: str, weights: Weights, description: Description, stated_by: str
) -> PretrainedWeights:
    """Weights of ours, whose description says everything; CheckpointError where its network cannot be built."""
    expected_weights(description, len(weights), path)
    preprocess, class_names = description.preprocess, description.class_names
    unshown = [("image_size", preprocess.image_size), *_UNSHOWN.items()]
    values = {name: value for name, value in vars(preprocess).items() if (name, value) not in unshown}
    network = OwnNetwork(description.spec.name, preprocess.image_size, description.spec.options)
    return PretrainedWeights(
        source, format, weights, len(class_names), class_names, cast(PreprocessValues, values), stated_by,
        network=network, multilabel=description.multilabel, temperature=description.temperature,
        validation_scores=description.validation_scores, license=description.license or UNKNOWN,
        unfinished=check_finished(path, True, description.unfinished), made_of=description.made_of,
    )  # fmt: skip


def _foreign(source: str, file: WeightsFile, facts: StatedFacts, state: State | None = None) -> PretrainedWeights:
    """Foreign weights with what a library or a config says of them, else with the defaults of their format."""
    model = facts.model
    if adapter := next((name for name in file.weights if ".lora_" in name), ""):
        fix = "merge them into the weights (merge_and_unload() of peft), and save the state_dict of the merged network"
        raise CheckpointError(f"{source} has LoRA adapters beside its weights, such as {adapter}", fix)
    if model is not None and model.options is None:
        return _of_timm(source, file, model, facts, state)
    try:
        matched = convert_weights(file.weights, facts.config, state)
    except ValueError as error:
        fix = error.fix if isinstance(error, NetworkOfTimmError) else "give the weights of a plain ViT, or timm:NAME"
        raise CheckpointError(f"{source}: {first_line(error)}", fix) from error
    if matched is None:
        fitting = usual_networks(file.weights)
        likely = f"; {' and '.join(fitting)} of timm would fit" if fitting else ""
        names = f"its {len(file.weights):,} names ({some_of(sorted(file.weights), 4)})"
        raise CheckpointError(
            f"{source}: {names} are of no ViT that is known, and nothing names another network{likely}",
            f"name it: --network {fitting[0] if fitting else 'NAME'} of 'vit train' or 'vit convert' ('vit models' "
            "lists all), or rename the file as timm names the network, such as resnet50.pth",
        )
    kind, converted, prefix = matched
    if facts.config.get("problem_type") == "regression":
        without_head, left_out = without(converted.weights, {r"head(_dist)?\..*": PREDICTS_NUMBERS})
        converted = replace(converted, weights=without_head, dropped=converted.dropped | left_out)
    check_state((file.place, prefix), state, source)
    named = _options_of_model(model, converted)
    if model is not None and named is None and facts.named_by:
        raise _not_those_of(model, facts, source)
    if converted.doubt and named is None and not facts.is_exact:
        raise CheckpointError(
            f"{source}: names and shapes fit a plain ViT, and {converted.doubt} as well",
            "rename the file as timm names the model, or give --network NAME, a folder with timm's config.json, or "
            "timm:NAME",
        )
    about = model if named is not None else None
    stated, guessed = _preprocess(facts, about, StatedPreprocess(converted.preprocess, f"usual for {kind.name} files"))
    stated = replace(stated, source=stated.source + _border(facts.config, converted.weights["patch_embed.proj.weight"]))
    head = converted.weights.get("head.weight")
    num_classes = 0 if head is None else len(head)
    class_names, assumed = _class_names(facts, num_classes)
    assumed += ("image_size",) if facts.preprocess is not None and facts.preprocess.has_other_size else ()
    options: dict[str, Value] = {**converted.options, **(named or {})}
    heads = file.stated.settings.get("num_heads")
    if type(heads) is int and model is None and heads > 0:
        options["num_heads"] = heads
    if facts.is_exact and model is None:
        options.setdefault("num_heads", published_heads(converted.weights["blocks.0.attn.qkv.weight"].shape[-1]))
    return PretrainedWeights(
        source, kind.name, converted.weights, num_classes, class_names, stated.values, stated.source,
        converted.dropped, options=options, image_size=None if about is None else about.image_size,
        undecided=converted.undecided, license=_license(facts, about), guessed=(*guessed, *assumed),
        multilabel=unfitted_rules(facts.task, num_classes) if num_classes else None,
        choice=file.choice or describe_choice(prefix, ()),
    )  # fmt: skip


def _border(config: Config, kernel: Tensor) -> str:
    """What is said where patches leave out a border of the stated images, as SigLIP so400m's of 384 pixels; else ""."""
    side, patch = image_side(config) or 0, max(1, *kernel.shape[-1:])
    if side % patch == 0:
        return ""
    return f"; its images of {side} pixels are resized to {side - side % patch}, where its patches cut off the border"


def _not_those_of(model: TimmModel, facts: StatedFacts, source: str, why: str = "") -> CheckpointError:
    problem = f"{source}: its tensors are not those of {model.name}, which {facts.named_by} names{why}"
    return CheckpointError(problem, _OTHER_NETWORK)


def _options_of_model(model: TimmModel | None, converted: Converted) -> dict[str, Value] | None:
    """The options that timm's model of the file's name has; None where only the name is that of a model of timm."""
    kernel = converted.weights.get("patch_embed.proj.weight")
    if model is None or model.options is None or kernel is None or model.options["embed_dim"] != kernel.shape[0]:
        return None
    is_shown = "fc_norm.weight" in converted.weights  # a mean of patches, where timm's model may read the class token
    left_out = {"embed_dim"} if "head.weight" in converted.weights and not is_shown else {"embed_dim", "pool"}
    named = {name: value for name, value in model.options.items() if name not in left_out}
    return {**named, "activation": named.get("activation", converted.options.get("activation", "gelu"))}


def _of_timm(
    source: str, file: WeightsFile, model: TimmModel, facts: StatedFacts, state: State | None
) -> PretrainedWeights:
    """Weights of a model of timm that is not a plain ViT: timm's own network computes with them."""
    try:
        matched = model.weights_of(file.weights, state)
    except ValueError as error:
        of_torchvision = read_as_torchvision(model, file.weights, state)
        if of_torchvision is None and facts.named_by:
            raise _not_those_of(model, facts, source, f": {error}") from error
        if of_torchvision is None:
            problem = f"{source} is named as timm's {model.name}, whose tensors are others: {error}"
            fix = f"rename the file if it is another network, or give timm:{model.name}"
            raise CheckpointError(problem, fix) from error
        matched = of_torchvision
    check_state((file.place, matched.prefix), state, source)
    stated, guessed = _preprocess(facts, model, None)
    class_names, assumed = _class_names(facts, matched.num_classes)
    assumed += () if facts.has_size or facts.is_exact else ("image_size",)
    return PretrainedWeights(
        source, "timm", {f"{_PREFIX}{key}": value for key, value in matched.weights.items()}, matched.num_classes,
        class_names, stated.values, stated.source, matched.dropped, network=OwnNetwork(model.name, model.image_size),
        license=_license(facts, model), choice=file.choice or describe_choice(matched.prefix, ()),
        guessed=(*guessed, *assumed),
    )  # fmt: skip


def _preprocess(
    facts: StatedFacts, model: TimmModel | None, usual: StatedPreprocess | None
) -> tuple[StatedPreprocess, tuple[str, ...]]:
    """(preprocessing: stated, else of timm's `model`, else `usual` for a format; names of values that are guesses)."""
    stated = facts.preprocess
    if stated is not None and stated.values.keys() >= set(PREPROCESSING):
        return stated, ()
    if model is not None:
        with explained(CheckpointError, f"timm's configuration of {model.name}", _OTHER_NETWORK, ValueError):
            values = from_timm_config(model.config)
        tag = model.config.get("tag")  # of the weights: timm has one where a file's name has none
        usual = StatedPreprocess(values, f"timm's configuration of {model.name}" + f".{tag}" * bool(tag))
    assert usual is not None
    if stated is None:
        return usual, () if model is not None and facts.is_exact else PREPROCESSING
    values = cast(PreprocessValues, {**usual.values, **stated.values})
    guessed = tuple(name for name in PREPROCESSING if name not in stated.values)
    return StatedPreprocess(values, f"{stated.source}, else {usual.source}"), guessed


def _license(facts: StatedFacts, model: TimmModel | None) -> str:
    """The license on the card beside the weights; of published weights without a card, the one that timm states."""
    return license_of(model) if facts.license == UNKNOWN and facts.is_exact else facts.license


def _class_names(facts: StatedFacts, num_classes: int) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """(class names, ("class_names",) where they are a guess); 1,000 outputs without a list are taken for ImageNet's."""
    names = facts.class_names
    if names is not None and num_classes:
        return (names, ()) if len(names) == num_classes else (None, ("class_names",))
    names = imagenet_classes(num_classes)
    return names, () if names is None or facts.is_exact else ("class_names",)
