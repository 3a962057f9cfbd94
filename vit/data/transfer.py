"""Small tensors from the CPU to the device of a training, without a wait for it"""

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on a device.

    A plain copy to a GPU waits until the GPU has done all that was asked of it before, and meanwhile asks nothing new.
    A copy from page-locked memory takes its place in the queue.
    """
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
