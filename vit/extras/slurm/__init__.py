"""SLURM: an executor of studies and predictions"""
