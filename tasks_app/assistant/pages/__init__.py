"""Pages of the assistant: the panel, traces of turns, and the administrators' page."""
