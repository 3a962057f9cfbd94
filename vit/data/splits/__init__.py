"""Training, validation and test images, folds and subsets."""
