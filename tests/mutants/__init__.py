"""The mutation run (`make mutants`): small defects put into modules of pure rules, and those no test sees.

mutmut makes the mutants; `modules` says of which modules and which tests look at them; `making` imports those
modules mutated; `running` runs the tests once, then again for each mutant of a sample, in `lanes`; `sample`
draws it and shares out the time; `telling` says what was found; `plugin` is what pytest calls.
"""
