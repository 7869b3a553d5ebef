"""Python programs that tests start are forked from a process that has their modules imported.

Importing Django and all of Flightdeck costs a program two seconds of processor time, a fork of a process that
has done so a few hundredths. What is forked is a process as any other: the tester's child, with arguments,
environment, directory, descriptors and session of its own, that signals reach and SIGKILL ends.

`popen` is the testers' side, `parent` the process that imports and forks. A test about how programs start, or
about what they load, says ``pytest.mark.executed``: nothing is forked for it.
"""
