"""Learning from images without labels: objectives, their training, and the backbone that is kept"""
