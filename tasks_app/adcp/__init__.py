"""The wire: everything Flightdeck says to a seller's agent and everything it hears back, over MCP or A2A.

No Django and no models here. `client.call` sends one task and answers with one `types.Seen`, whatever came
back; `client.discover` asks what a seller can do. Source: AdCP 3.x, `docs/building/by-layer`.
"""
