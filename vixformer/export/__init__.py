"""Trained models for other programs: ONNX, torch.export programs, AOTInductor packages, and eight-bit weights."""
