"""From the bytes of an image to the pixels of a batch."""
