"""Commands that use a network on images: predict, explain, inspect."""
