"""From logits to answers: calibration, thresholds, prediction sets."""
