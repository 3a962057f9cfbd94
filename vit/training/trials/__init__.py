"""Trials: the beginning of a training on copies of everything, to decide what only the machine can tell"""
