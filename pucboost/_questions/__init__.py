"""``puc.questions``: what each question adds, how few carry most of it, and which one to ask next."""
