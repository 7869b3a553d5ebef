"""What Flightdeck is measured beside: the same chain, each peer set up as its documentation tunes it."""
