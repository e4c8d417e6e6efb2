"""What a trained model keeps: the consent it was trained under, a summary of its training, its files, its anchor."""
