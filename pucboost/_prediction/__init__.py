"""What each person would be told, for any subset of what they share."""
