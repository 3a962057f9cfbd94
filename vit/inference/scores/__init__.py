"""What a network gave for images, and the uncertainty of counts."""
