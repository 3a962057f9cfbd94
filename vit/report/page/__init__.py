"""What all pages share: templates, style, figures, pictures."""
