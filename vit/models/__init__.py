"""Networks: tensors in, tensors out; torch and timm alone."""
