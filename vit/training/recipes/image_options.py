"""The part of a recipe that decides images: which are read, how they become the network's input, how they are varied"""

from dataclasses import dataclass
from typing import Literal

from vit import ranges
from vit.data.core.dataset_names import TableColumns, is_gone


@dataclass
class DataConfig:
    """Where images come from.

    Args:
        source: DATA: a folder, a CSV file, a parquet table, tar shards, hf:NAME of the Hugging Face hub, "digits", or
            the name of a torchvision data set.
        root: folder of torchvision's data sets.
        download: whether torchvision may download a missing data set.
        validation: fraction of the images used for validation, where DATA has no validation images.
        test: fraction of the images used for the test, where DATA has no test images and there is no fold.
        calibration: fraction of the images set aside for the temperature, thresholds and prediction sets; 0: the
            validation images serve for these too.
        split_seed: seed of the split into training, validation and test images. Runs that are compared need equal
            values of `split_seed`, `validation`, `test`, `groups` and `bursts`.
        groups: regular expression that is searched in each path; its first group in parentheses names the image's
            group, such as '(patient[0-9]+)'. No split divides a group. null: the column `group` of a CSV, if there is
            one.
        bursts: images with equal or nearly equal pixels. together: no split divides them, and intervals count them as
            one group; only files with equal contents, where images have groups of their own. split: they are not
            searched.
        fold: I/N: the I-th of N folds of all images is the test part, and the other folds are for training and
            validation; splits of DATA do not count. `vit crossval` trains all N. null: no folds.
        train_images: number of training images used, where a smaller choice lies inside a larger one; null: all.
        subset: classes of `train_images`. balanced: equally many of each class. natural: class fractions of all
            training images. auto: natural where the rarest class has less than half the images of the commonest class,
            else balanced.
        subset_seed: seed of the choice of `train_images`; null: the seed of the training.
        sampling: how often an epoch draws the images of each class. natural: each image once. balanced: all classes
            equally often. sqrt: classes by the square root of their size. An epoch keeps its length.
        allow_empty: whether a class folder may be empty.
        image_column: column of images in a parquet table, or of paths in a CSV; null: the only one, or the one with
            a usual name.
        label_column: column of labels in a parquet table or a CSV; null: the only one, or the one with a usual name.
        cache: place of decoded images; the network sees the same pixels. memory: kept in memory. none: files are read
            again in every epoch. auto: up to 2 GiB in memory; beside GPUs up to a quarter of the memory of the machine,
            container or job, which the processes of a training divide.
        num_workers: number of processes that decode images; null: chosen by the number of cores.
    """

    source: str = "digits"
    root: str | None = None
    download: bool = False
    validation: ranges.Share = 0.1
    test: ranges.Share = 0.2
    calibration: ranges.Share = 0.0
    split_seed: ranges.Seed = 0
    groups: str | None = None
    bursts: Literal["together", "split"] = "together"
    fold: str | None = None
    train_images: ranges.PositiveInt | None = None
    subset: Literal["auto", "balanced", "natural"] = "auto"
    subset_seed: ranges.Seed | None = None
    sampling: Literal["natural", "balanced", "sqrt"] = "natural"
    allow_empty: bool = False
    image_column: str | None = None
    label_column: str | None = None
    cache: Literal["auto", "memory", "none"] = "auto"
    num_workers: ranges.NonNegativeInt | None = None

    @property
    def columns(self) -> TableColumns:
        """The columns of a table that are given by name."""
        return TableColumns(self.image_column, self.label_column)

    @property
    def source_now(self) -> str:
        """The source for a next command; the word DATA where it is a path that is not there any more."""
        return "DATA" if is_gone(self.source) else self.source

    @property
    def places(self) -> dict[str, str | None]:
        """Options beside `source` that say where images, their labels and their groups are."""
        return {"root": self.root, "groups": self.groups, **self.columns.by_option}


@dataclass
class PreprocessConfig:
    """How an image becomes the network's input; null: as the pretrained weights say, else the value in brackets.

    Args:
        image_size: side of the network's input in pixels (the network's own).
        crop_fraction: fraction of the resized shorter side that the center crop keeps (1).
        mean: mean of each channel in images from 0 to 1 (ImageNet's; without three channels the average of its three).
        std: standard deviation of each channel in images from 0 to 1 (as mean).
        interpolation: interpolation of resized images (bicubic).
        resize_mode: sides that are resized before the crop (shortest). shortest: the shorter side, to the input's side.
            squash: both sides. pad: the longer side, with the mean color beside the picture, so that the network sees
            the whole picture in its proportions; it sets crop_fraction to 1.
        window: values that become black and white in images of more than 8 bits, such as [0, 4095]; or two for each
            channel. null: those that 0.1 % of the pixels of training images lie below and above, if such images are
            among them.
        channels: number of channels of an image (3). 1: gray. 3: red, green and blue. 2, or 4 to 16: TIFF files with as
            many channels.
        color_profiles: what an ICC profile in a photograph does (convert). convert: its colors become sRGB, as viewers
            show them. ignore: its numbers are taken for sRGB, as torchvision and timm take them.
    """

    image_size: ranges.ImageSide | None = None
    crop_fraction: ranges.Area | None = None
    mean: tuple[ranges.Finite, ...] | None = None
    std: tuple[ranges.Positive, ...] | None = None
    interpolation: Literal["bilinear", "bicubic"] | None = None
    resize_mode: Literal["shortest", "squash", "pad"] | None = None
    window: tuple[ranges.Finite, ...] | None = None
    channels: ranges.ChannelCount | None = None
    color_profiles: Literal["convert", "ignore"] | None = None


@dataclass
class AugmentConfig:
    """Augmentation of training images; null: the value of the preset `name`. A given name replaces that of recipes.

    Args:
        name: preset. none: no augmentation. light: shift or crop, and flip. standard: light and RandAugment. strong:
            standard and mixup, cutmix and erasing.
        crop: smallest fraction of the area that a random crop keeps. Crops of square pictures are those of
            torchvision's RandomResizedCrop; those of other pictures are larger.
        shift: largest shift, as a fraction of the side.
        rotate: largest rotation in degrees.
        zoom: largest relative change of size.
        flip: probability of a horizontal flip.
        randaugment: number of RandAugment operations per image.
        magnitude: strength of the RandAugment operations, 0 to 30.
        mixup: alpha of mixup.
        cutmix: alpha of cutmix, whose boxes the border cuts (Yun et al. 2019).
        erasing: probability that a box is erased.
        own: import path of an augmentation of your own, MODULE:NAME, which comes after the crop; null: none.
    """

    name: Literal["none", "light", "standard", "strong"] = "light"
    crop: ranges.Area | None = None
    shift: ranges.Share | None = None
    rotate: ranges.NonNegative | None = None
    zoom: ranges.Share | None = None
    flip: ranges.ClosedUnitInterval | None = None
    randaugment: ranges.NonNegativeInt | None = None
    magnitude: ranges.Magnitude | None = None
    mixup: ranges.NonNegative | None = None
    cutmix: ranges.NonNegative | None = None
    erasing: ranges.ClosedUnitInterval | None = None
    own: ranges.ImportPath | None = None

    @property
    def mixes(self) -> bool:
        """Whether images are mixed in pairs, as `Augment.mixes` will say; known without torch."""
        return any(self.name == "strong" if alpha is None else alpha > 0 for alpha in (self.mixup, self.cutmix))
