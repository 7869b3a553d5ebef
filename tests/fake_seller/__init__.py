"""A fake seller for tests and for the chaos run: an AdCP agent in its own process, with faults on request.

`driver.FakeSeller` starts the process and controls it. `faults` lists the kinds of fault.
"""
