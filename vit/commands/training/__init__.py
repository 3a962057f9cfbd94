"""`vit train`: its options, its plan and its progress."""
