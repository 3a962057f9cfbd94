"""What a masked autoencoder makes of images: an image, what its encoder sees, and what its decoder predicts"""

import torch
from matplotlib.figure import Figure

from vit.data.loader import labeled_images
from vit.report.image_grid import displayable, image_grid
from vit.training.pretraining.mae import Mae
from vit.training.pretraining.plan import PretrainPlan

MOST = 8  # images, one in each column


def reconstructions(objective: Mae, plan: PretrainPlan) -> Figure:
    """Three rows of pictures: images, their visible patches, and predictions in place of the hidden patches.

    The images are the first of the validation images, or of the training images where there are no others. A predicted
    patch has the true brightness and contrast, which the objective does not ask for.
    """
    splits = plan.source.splits
    samples = splits.get("validation", splits["train"])
    batch = next(iter(labeled_images(samples.select(range(min(MOST, len(samples)))), plan.preprocess)))
    images = plan.preprocess.normalize(batch.image[batch.valid])
    masked, filled = objective.eval().pictures(images, torch.arange(len(images)))
    mean, std = plan.preprocess.mean, plan.preprocess.std
    rows = [displayable(pictures, mean, std) for pictures in (images, masked, filled)]
    captions = [
        caption if place == 0 else "" for caption in ("image", "visible", "predicted") for place in range(len(images))
    ]
    return image_grid([*torch.cat(rows)], captions, columns=max(1, len(images)))
