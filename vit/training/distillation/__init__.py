"""Knowledge distillation: a trained network teaches another one"""
