"""MLflow: a tracker, and checkpoints as models of MLflow"""
