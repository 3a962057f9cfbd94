"""Engines beside PyTorch: OpenVINO and onnxruntime, and which engine computes a checkpoint"""
