"""Engines beside PyTorch: OpenVINO and onnxruntime"""
