"""What a trained model keeps: the consent schema, a summary of its training, its files and its anchor."""
