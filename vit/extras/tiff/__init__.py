"""TIFF images that Pillow does not keep whole, by tifffile"""
