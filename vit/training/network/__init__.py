"""The network that a training starts from: pretrained weights, head, frozen features."""
