"""TensorBoard: a tracker"""
