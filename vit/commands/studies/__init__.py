"""`vit study`: its options, its plan, its cells and its answer."""
