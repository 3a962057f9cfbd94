"""int8: exports with weights and activations of 8 bits"""
