"""What all admin pages share: the page itself, states as shape, colour and word, numbers and times."""
