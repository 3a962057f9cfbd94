"""HEIC photographs, by pillow-heif (extra `heif`): Pillow opens them then, and the core's decoder reads them"""

from pillow_heif import register_heif_opener


def register() -> None:
    """Let Pillow open HEIC photographs: their primary picture, without thumbnails."""
    register_heif_opener(thumbnails=False)
