"""From what a user names to samples: folders, tables, torchvision's data sets."""
